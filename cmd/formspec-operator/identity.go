// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/formspec/formspec-operator/pkg/clustercontrol"
	"github.com/formspec/formspec-operator/pkg/clustercontrol/identity"
)

// identityTimeout bounds the one request of the subcommand.
const identityTimeout = 30 * time.Second

type identityOptions struct {
	kubeconfig string
	namespace  string
	file       string
}

func newIdentityCommand() *cobra.Command {
	o := identityOptions{namespace: ownNamespace(serviceAccountNamespace)}
	cmd := &cobra.Command{
		Use:   "identity",
		Short: "Prints the key id and the public key that the operator signs its reports with, for Cluster Control to know it by",
		Example: "  formspec-operator identity\n" +
			"  formspec-operator identity --file identity.pem\n" +
			"  kubectl exec -n formspec-system deploy/formspec-operator -- formspec-operator identity",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), cmd.OutOrStdout()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "Path of a kubeconfig. Empty: the cluster this runs in, else $KUBECONFIG, else ~/.kube/config.")
	flags.StringVar(&o.namespace, "namespace", o.namespace, "namespace of the operator, which has the Secret "+identity.SecretName)
	flags.StringVar(&o.file, "file", "", "file with the private key in PEM, instead of the Secret")
	cmd.MarkFlagsMutuallyExclusive("file", "kubeconfig")
	cmd.MarkFlagsMutuallyExclusive("file", "namespace")
	return cmd
}

func (o identityOptions) run(ctx context.Context, out io.Writer) error {
	if o.file != "" {
		content, err := os.ReadFile(o.file)
		if err != nil {
			return err
		}
		key, err := clustercontrol.ParseIdentity(content)
		if err != nil {
			return fmt.Errorf("%s %w", o.file, err)
		}
		return printIdentity(out, key)
	}
	config, err := connection(o.kubeconfig)
	if err != nil {
		return fmt.Errorf("load the client config: %w", err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("set up the client: %w", err)
	}
	return o.read(ctx, kube, out)
}

// read prints the key in the Secret. It makes none: that is the leader's business, or there would be two.
func (o identityOptions) read(ctx context.Context, kube kubernetes.Interface, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, identityTimeout)
	defer cancel()
	key, err := identity.Read(ctx, kube, o.namespace)
	if errors.Is(err, identity.ErrAbsent) {
		return fmt.Errorf("namespace %s has no Secret %s yet: the operator makes it once it runs with --control-cluster-url", o.namespace, identity.SecretName)
	}
	if err != nil {
		return err
	}
	return printIdentity(out, key)
}

func printIdentity(out io.Writer, key *clustercontrol.Identity) error {
	_, err := fmt.Fprintf(out, "key id: %s\npublic key: %s\n", key.KeyID(), key.PublicKey())
	return err
}
