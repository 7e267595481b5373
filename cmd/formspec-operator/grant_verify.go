// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/resourceclaim"
)

type verifyOptions struct {
	files      []string
	datastores []string
	publicKeys []string
	ownerKeys  string
	namespace  string
	at         string
	settings   resourceclaim.Settings
}

func newGrantVerifyCommand() *cobra.Command {
	o := verifyOptions{settings: resourceclaim.Settings{MinGrantVersion: v1alpha1.GrantVersion1, TrustDatastoreKeys: true}}
	cmd := &cobra.Command{
		Use:   "verify -f FILE (--public-key HEX | --owner-keys FILE)",
		Short: "Says whether the operator would accept the ResourceClaims of a file, and why not; fails if it would not",
		Example: "  formspec-operator grant verify -f signed.yaml --owner-keys cloud-owner.pub --datastore datastore.yaml\n" +
			"  kubectl get configmap formspec-owner-keys -n formspec-system -o yaml > keys.yaml\n" +
			"  kubectl get fds,frc -n bank -o yaml | formspec-operator grant verify -f - --owner-keys keys.yaml",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.InOrStdin(), cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&o.files, "filename", "f", nil, "file with ResourceClaims, and Datastores if you like; - is standard input; may be repeated")
	flags.StringArrayVar(&o.datastores, "datastore", nil, "file with Datastores, for their owner and allowedTenants; may be repeated")
	flags.StringArrayVar(&o.publicKeys, "public-key", nil, "public key of the owner in hex; may be repeated")
	flags.StringVar(&o.ownerKeys, "owner-keys", "", "file with the owners' keys: the ConfigMap formspec-owner-keys, or one owner's public keys in hex, one a line")
	flags.StringVar(&o.namespace, "namespace", "", "namespace of objects that do not say theirs (version 2 signs it)")
	flags.StringVar(&o.at, "at", "", "the moment to decide for, in RFC 3339 (default: now)")
	flags.StringVar(&o.settings.ClusterName, "cluster-name", "", "the operator's --cluster-name (version 2 signs it)")
	flags.Int32Var(&o.settings.MinGrantVersion, "min-grant-version", o.settings.MinGrantVersion, "the operator's --min-grant-version")
	flags.BoolVar(&o.settings.TrustDatastoreKeys, "trust-datastore-keys", o.settings.TrustDatastoreKeys, "the operator's --trust-datastore-keys")
	if err := cmd.MarkFlagRequired("filename"); err != nil {
		panic(err) // the flag is defined above
	}
	cmd.MarkFlagsMutuallyExclusive("public-key", "owner-keys")
	return cmd
}

func (o *verifyOptions) run(stdin io.Reader, out io.Writer) error {
	now := time.Now()
	if o.at != "" {
		at, err := time.Parse(time.RFC3339, o.at)
		if err != nil {
			return usageError{fmt.Errorf("--at: %w", err)}
		}
		now = at
	}
	var objects grantObjects
	for _, file := range slices.Concat(o.files, o.datastores) {
		content, err := readAll(file, stdin)
		if err == nil {
			err = objects.read(content, o.namespace)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
	}
	if len(objects.claims) == 0 {
		return errors.New("there is no ResourceClaim in the input")
	}
	keys, err := o.keys()
	if err != nil {
		return err
	}
	if keys == nil && len(objects.datastores) == 0 {
		return usageError{errors.New("there is no key to verify with. Give --public-key, --owner-keys, or a Datastore with spec.ownerPublicKey")}
	}
	refused := 0
	for _, claim := range objects.claims {
		in := resourceclaim.Input{Now: now, Settings: o.settings, Claim: claim, Datastore: objects.datastoreOf(claim), WorkspaceExists: true, Rivals: objects.claims}
		if len(objects.datastores) == 0 {
			in.Datastore = assumed(claim)
		}
		in.OwnerKeys = resourceclaim.OwnerKeys{State: resourceclaim.KeysNoEntry}
		if keys != nil && in.Datastore != nil {
			in.OwnerKeys = keys(in.Datastore.Spec.Owner)
		}
		verdict := resourceclaim.Judge(in)
		if !verdict.Approved {
			refused++
		}
		if err := o.explain(out, in, verdict, len(objects.datastores) == 0); err != nil {
			return err
		}
	}
	if refused > 0 {
		return fmt.Errorf("%d of %d ResourceClaims would be refused", refused, len(objects.claims))
	}
	return nil
}

// explain prints one verdict.
func (o *verifyOptions) explain(out io.Writer, in resourceclaim.Input, verdict resourceclaim.Verdict, noDatastore bool) error {
	word := "refused"
	if verdict.Approved {
		word = "accepted"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "ResourceClaim %q: %s (%s)\n  %s\n", in.Claim.Name, word, verdict.Reason, verdict.Message)
	if message, err := v1alpha1.GrantMessage(in.Claim, o.settings.ClusterName); err == nil {
		fmt.Fprintf(&text, "  What the owner signs: %s\n", message)
	}
	if verdict.Approved && noDatastore {
		text.WriteString("  Not checked without --datastore: whether spec.grantedBy owns the datastore, and whether it allows the workspace.\n")
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// keys says how to find an owner's keys. Nil: no flag names any.
func (o *verifyOptions) keys() (func(owner string) resourceclaim.OwnerKeys, error) {
	entry := strings.Join(o.publicKeys, "\n")
	if o.ownerKeys != "" {
		content, err := os.ReadFile(o.ownerKeys)
		if err != nil {
			return nil, fmt.Errorf("read the owner keys: %w", err)
		}
		// The keys of one owner are no object, and mostly no YAML.
		var configMap corev1.ConfigMap
		if yaml.Unmarshal(content, &configMap) == nil && configMap.Kind == "ConfigMap" {
			return func(owner string) resourceclaim.OwnerKeys { return resourceclaim.LookUp(&configMap, owner) }, nil
		}
		entry = string(content)
	} else if len(o.publicKeys) == 0 {
		return nil, nil
	}
	return func(string) resourceclaim.OwnerKeys {
		return resourceclaim.OwnerKeys{State: resourceclaim.KeysPublished, Entry: entry}
	}, nil
}

// assumed is a Datastore that belongs to whoever grants, and allows it.
func assumed(claim *v1alpha1.ResourceClaim) *v1alpha1.Datastore {
	return &v1alpha1.Datastore{
		ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.Datastore, Namespace: claim.Namespace},
		Spec:       v1alpha1.DatastoreSpec{Owner: cmp.Or(claim.Spec.GrantedBy, "unknown"), AllowedTenants: []string{"*"}},
	}
}

// grantObjects are what a verdict depends on, as the files have it.
type grantObjects struct {
	claims     []*v1alpha1.ResourceClaim
	datastores []*v1alpha1.Datastore
}

func (g *grantObjects) read(content []byte, namespace string) error {
	for _, part := range splitDocuments(content) {
		if err := g.decode(part, namespace); err != nil {
			return err
		}
	}
	return nil
}

// decode takes in one document, or each item of a list.
func (g *grantObjects) decode(document, namespace string) error {
	h, err := decodeHead(document)
	if err != nil {
		return err
	}
	for _, item := range h.Items {
		if err := g.decode(string(item.Raw), namespace); err != nil {
			return err
		}
	}
	switch {
	case h.is("ResourceClaim"):
		claim, err := decodeClaim(document)
		if err != nil {
			return err
		}
		claim.Namespace = cmp.Or(claim.Namespace, namespace)
		g.claims = append(g.claims, claim)
	case h.is("Datastore"):
		datastore := &v1alpha1.Datastore{}
		if err := strict([]byte(document), h.Kind, datastore); err != nil {
			return err
		}
		datastore.Namespace = cmp.Or(datastore.Namespace, namespace)
		g.datastores = append(g.datastores, datastore)
	}
	return nil
}

// datastoreOf finds the Datastore that a claim names. An object that does not say its namespace may be in any.
func (g *grantObjects) datastoreOf(claim *v1alpha1.ResourceClaim) *v1alpha1.Datastore {
	for _, datastore := range g.datastores {
		same := datastore.Namespace == claim.Namespace || datastore.Namespace == "" || claim.Namespace == ""
		if same && datastore.Name == claim.Spec.Datastore {
			return datastore
		}
	}
	return nil
}
