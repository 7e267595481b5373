// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

type signOptions struct {
	file        string
	keyFile     string
	grantedBy   string
	grantedAt   string
	version     int32 // 0: what the claim says
	clusterName string
	namespace   string
	expiresAt   string
	expiresIn   time.Duration
}

func newGrantSignCommand() *cobra.Command {
	o := signOptions{}
	cmd := &cobra.Command{
		Use:   "sign --key FILE [-f FILE]",
		Short: "Signs each ResourceClaim of a file and prints the file; everything else in it stays as it is",
		Example: "  formspec-operator grant sign --key cloud-owner.pem -f claim.yaml | kubectl apply -f -\n" +
			"  formspec-operator grant sign --key cloud-owner.pem -f claim.yaml \\\n" +
			"    --grant-version 2 --cluster-name jkt-premium-01 --namespace bank --expires-in 2160h > signed.yaml",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(time.Now()); err != nil {
				return usageError{err}
			}
			key, err := readPrivateKey(o.keyFile)
			if err != nil {
				return fmt.Errorf("read the key: %w", err)
			}
			content, err := readAll(o.file, cmd.InOrStdin())
			if err != nil {
				return fmt.Errorf("read %s: %w", o.file, err)
			}
			signed, err := o.sign(content, key, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			_, err = io.WriteString(cmd.OutOrStdout(), signed)
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.file, "filename", "f", "-", "file with ResourceClaims; - is standard input")
	flags.StringVar(&o.keyFile, "key", "", "file of the owner's private key: PEM (PKCS #8), or the seed in hex")
	flags.StringVar(&o.grantedBy, "granted-by", "", "name of the owner (default: the claim's spec.grantedBy)")
	flags.StringVar(&o.grantedAt, "granted-at", "", "when the grant starts, in RFC 3339 (default: now)")
	flags.Int32Var(&o.version, "grant-version", 0, "version of the signed message, 1 or 2 (default: the claim's spec.grantVersion, or 1)")
	flags.StringVar(&o.clusterName, "cluster-name", "", "version 2: the --cluster-name of the operator that the grant is for")
	flags.StringVar(&o.namespace, "namespace", "", "namespace of the claim, if it does not say (version 2 signs it)")
	flags.StringVar(&o.expiresAt, "expires-at", "", "version 2: when the grant ends, in RFC 3339 (default: the claim's spec.expiresAt, or never)")
	flags.DurationVar(&o.expiresIn, "expires-in", 0, "version 2: how long after its start the grant ends, such as 2160h")
	if err := cmd.MarkFlagRequired("key"); err != nil {
		panic(err) // the flag is defined above
	}
	cmd.MarkFlagsMutuallyExclusive("expires-at", "expires-in")
	return cmd
}

// complete fills in what depends on the clock, and finds mistakes in the flags.
func (o *signOptions) complete(now time.Time) error {
	if o.version < 0 || o.version > v1alpha1.GrantVersion2 {
		return fmt.Errorf("--grant-version is %d, want 1 or 2", o.version)
	}
	if o.grantedAt == "" {
		o.grantedAt = now.UTC().Format(time.RFC3339)
	}
	start, err := time.Parse(time.RFC3339, o.grantedAt)
	if err != nil {
		return fmt.Errorf("--granted-at: %w", err)
	}
	if o.expiresIn < 0 {
		return fmt.Errorf("--expires-in is %s: the grant would end before it starts", o.expiresIn)
	}
	if o.expiresIn > 0 {
		o.expiresAt = start.Add(o.expiresIn).UTC().Format(time.RFC3339)
	}
	if o.expiresAt != "" {
		if _, err := time.Parse(time.RFC3339, o.expiresAt); err != nil {
			return fmt.Errorf("--expires-at: %w", err)
		}
	}
	return nil
}

// sign returns the stream with its claims signed. What was signed goes to notes.
func (o *signOptions) sign(content []byte, key ed25519.PrivateKey, notes io.Writer) (string, error) {
	var out strings.Builder
	count := 0
	for _, part := range splitDocuments(content) {
		h, err := decodeHead(part)
		if err != nil {
			return "", err
		}
		if !h.is("ResourceClaim") && len(h.Items) == 0 {
			out.WriteString(part)
			continue
		}
		document, err := parseDocument(part)
		if err != nil {
			return "", err
		}
		signed := 0
		for _, object := range document.objects("ResourceClaim") {
			if err := o.signObject(object, key, notes); err != nil {
				return "", err
			}
			signed++
		}
		if signed == 0 {
			out.WriteString(part)
			continue
		}
		count += signed
		text, err := document.text()
		if err != nil {
			return "", err
		}
		out.WriteString(text)
	}
	if count == 0 {
		return "", errors.New("there is no ResourceClaim in the input")
	}
	return out.String(), nil
}

// signObject fills in the fields of one claim and signs what an API server would read.
func (o *signOptions) signObject(object yamlObject, key ed25519.PrivateKey, notes io.Writer) error {
	claim, err := object.claim()
	if err != nil {
		return err
	}
	if err := o.fillIn(object, claim); err != nil {
		return fmt.Errorf("sign ResourceClaim %q: %w", claim.Name, err)
	}
	if claim, err = object.claim(); err != nil {
		return err
	}
	if start, end, err := v1alpha1.GrantValidity(claim); err == nil && !end.IsZero() && !end.After(start) {
		return fmt.Errorf("sign ResourceClaim %q: the grant would end at %s, before it starts at %s. Give another end with --expires-at or --expires-in",
			claim.Name, claim.Spec.ExpiresAt, claim.Spec.GrantedAt)
	}
	signature, err := v1alpha1.SignGrant(claim, o.clusterName, key)
	if err != nil {
		return fmt.Errorf("sign ResourceClaim %q: %w", claim.Name, err)
	}
	if err := object.set("spec", "signature", signature); err != nil {
		return err
	}
	message, err := v1alpha1.GrantMessage(claim, o.clusterName)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(notes, "signed ResourceClaim %q: %s\n", claim.Name, message)
	return err
}

func (o *signOptions) fillIn(object yamlObject, claim *v1alpha1.ResourceClaim) error {
	version := v1alpha1.EffectiveGrantVersion(claim)
	if o.version != 0 {
		version = o.version
	}
	switch {
	case o.grantedBy == "" && claim.Spec.GrantedBy == "":
		return usageError{errors.New("spec.grantedBy is empty. Say who grants with --granted-by")}
	case version == v1alpha1.GrantVersion1 && (o.expiresAt != "" || o.clusterName != ""):
		return usageError{errors.New("a grant of version 1 is bound to no cluster and never ends. Add --grant-version 2, or leave out --cluster-name, --expires-at and --expires-in")}
	case version == v1alpha1.GrantVersion2 && o.clusterName == "":
		return usageError{errors.New("a grant of version 2 is for one cluster. Name it with --cluster-name, as its operator is started with")}
	case version == v1alpha1.GrantVersion2 && o.namespace == "" && claim.Namespace == "":
		return usageError{errors.New("a grant of version 2 is for one namespace, and metadata.namespace is empty. Name it with --namespace")}
	case o.namespace != "" && claim.Namespace != "" && o.namespace != claim.Namespace:
		return usageError{fmt.Errorf("--namespace is %q and metadata.namespace is %q", o.namespace, claim.Namespace)}
	}
	set := func(section, field, value string) error {
		if value == "" {
			return nil
		}
		return object.set(section, field, value)
	}
	if version != v1alpha1.EffectiveGrantVersion(claim) {
		if err := object.setNumber("spec", "grantVersion", version); err != nil {
			return err
		}
	}
	return errors.Join(
		set("metadata", "namespace", o.namespace),
		set("spec", "grantedBy", o.grantedBy),
		set("spec", "grantedAt", o.grantedAt),
		set("spec", "expiresAt", o.expiresAt),
	)
}

// decodeClaim reads a claim as the API server does, and refuses fields that it would drop.
func decodeClaim(document string) (*v1alpha1.ResourceClaim, error) {
	claim := &v1alpha1.ResourceClaim{}
	if err := yaml.UnmarshalStrict([]byte(document), claim); err != nil {
		return nil, fmt.Errorf("decode the ResourceClaim that starts with %q: %w", firstLine(document), err)
	}
	return claim, nil
}
