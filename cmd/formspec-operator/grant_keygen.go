// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

type keygenOptions struct {
	owner     string
	out       string
	namespace string
	force     bool
}

func newGrantKeygenCommand() *cobra.Command {
	o := keygenOptions{}
	cmd := &cobra.Command{
		Use:   "keygen --owner NAME",
		Short: "Makes the key pair of a datastore owner, and says how to publish the public key",
		Example: "  formspec-operator grant keygen --owner cloud-owner\n" +
			"  formspec-operator grant keygen --owner cloud-owner --out - | vault kv put secret/cloud-owner key=-",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.OutOrStdout(), cmd.ErrOrStderr()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.owner, "owner", "", "name of the owner, as in spec.owner of the Datastores")
	flags.StringVar(&o.out, "out", "", "file of the private key; - is standard output (default: the owner's name with .pem)")
	flags.StringVar(&o.namespace, "namespace", "formspec-system", "namespace of the operator, for the printed commands")
	flags.BoolVar(&o.force, "force", false, "replace the file if there is one")
	if err := cmd.MarkFlagRequired("owner"); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}

func (o keygenOptions) run(stdout, stderr io.Writer) error {
	if problems := validation.IsConfigMapKey(o.owner); len(problems) > 0 {
		return usageError{fmt.Errorf("--owner %q: no key can be published under that name: %s", o.owner, problems[0])}
	}
	if o.out == "" {
		o.out = o.owner + ".pem"
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return fmt.Errorf("generate a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return fmt.Errorf("encode the private key: %w", err)
	}
	encoded := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if o.out == "-" {
		if _, err := stdout.Write(encoded); err != nil {
			return err
		}
		stdout = stderr // what is for people
	} else {
		if err := writeSecret(o.out, encoded, o.force); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "Private key: %s. Whoever has it can sign in the name of %s: keep it secret, and keep a copy.\n", o.out, o.owner)
	}
	key := v1alpha1.FormatPublicKey(public)
	_, err = fmt.Fprintf(stdout, `Public key:  %[1]s

Publish the public key, once per cluster. If there are no keys of any owner yet:

  kubectl create configmap %[2]s --namespace %[3]s --from-literal=%[4]s=%[1]s

If there are, this sets the only key of %[4]s and leaves other owners alone:

  kubectl patch configmap %[2]s --namespace %[3]s --type merge --patch '{"data":{"%[4]s":"%[1]s"}}'

To keep the earlier keys of %[4]s as well, put this one on a line of its own:

  kubectl edit configmap %[2]s --namespace %[3]s
`, key, v1alpha1.OwnerKeysConfigMap, o.namespace, o.owner)
	return err
}

// writeSecret writes a file that only its owner may read, and takes the place of another only by force.
func writeSecret(name string, content []byte, force bool) error {
	if !force {
		file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s is there already and may be the only copy of a key. Choose another name with --out, or replace it with --force", name)
		}
		if err != nil {
			return err
		}
		return fill(file, content)
	}
	// A new file: the one that it replaces may be readable by others.
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return err
	}
	if err := fill(file, content); err != nil {
		return err
	}
	return os.Rename(file.Name(), name)
}

// fill writes and closes a new file, and leaves no half of it behind.
func fill(file *os.File, content []byte) error {
	_, err := file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

// readPrivateKey reads an ed25519 private key: PEM (PKCS #8, as keygen and openssl write it), or the 32 bytes of its seed in hex.
func readPrivateKey(name string) (ed25519.PrivateKey, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(content)
	if block == nil {
		seed, err := hex.DecodeString(strings.TrimSpace(string(content)))
		if err != nil || len(seed) != ed25519.SeedSize {
			return nil, fmt.Errorf("%s is neither a private key in PEM nor a seed of %d hex digits", name, 2*ed25519.SeedSize)
		}
		return ed25519.NewKeyFromSeed(seed), nil
	}
	if block.Type != "PRIVATE KEY" {
		return nil, fmt.Errorf("%s holds a PEM block %q, want \"PRIVATE KEY\". An encrypted key must be decrypted first: openssl pkey -in %s", name, block.Type, name)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	private, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s holds another kind of key, want ed25519", name)
	}
	return private, nil
}
