// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// unknownUID stands for the UID that the API server gives to an object which only a file has.
const unknownUID types.UID = "00000000-0000-0000-0000-000000000000"

func newRenderCommand() *cobra.Command {
	var files []string
	settings := workspace.Settings{IdleAfter: newOptions().idleAfter, WakeDeadline: newOptions().wakeDeadline}
	mode := newOptions().scaleToZero
	cmd := &cobra.Command{
		Use:   "render -f FILE",
		Short: "Prints every object that the operator would create for the Workspaces of a file, without any cluster",
		Example: "  formspec-operator render -f manifests/samples/bank-mandiri.yaml\n" +
			"  kubectl get clusterclasses,workspaces -A -o yaml | formspec-operator render -f -",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains(scaleToZeroModes, workspace.Mode(mode)) {
				return usageError{fmt.Errorf("--scale-to-zero: must be activator, keda-http or off, is %q", mode)}
			}
			settings.ScaleToZero = workspace.Mode(mode)
			var objects objects
			for _, file := range files {
				if err := objects.read(file, cmd.InOrStdin()); err != nil {
					return err
				}
			}
			return objects.render(cmd.OutOrStdout(), settings)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&files, "filename", "f", nil, "file with ClusterClasses and Workspaces; - is standard input; may be repeated")
	flags.StringVar(&settings.Image, "resource-image", defaultResourceImage, "image of the pods, pinned by a version or a digest")
	flags.StringVar(&settings.ClusterName, "cluster-name", "", "name of the cluster")
	flags.StringVar(&settings.ControlURL, "workspace-control-cluster-url", "", "CONTROL_CLUSTER_URL of the pods")
	flags.StringVar(&mode, "scale-to-zero", mode, "who lets idle workspaces sleep: activator, keda-http or off")
	flags.BoolVar(&settings.AllowUnpinned, "dev", false, "accept an image without a version")
	if err := cmd.MarkFlagRequired("filename"); err != nil {
		panic(err) // the flag is defined above
	}
	return cmd
}

// objects are what the files hold, in their order.
type objects struct {
	classes    []*v1alpha1.ClusterClass
	workspaces []*v1alpha1.Workspace
}

func (o *objects) read(file string, stdin io.Reader) error {
	content, err := readAll(file, stdin)
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = o.decode(document)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
	}
}

func readAll(file string, stdin io.Reader) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(file)
}

// decode takes in one document, or each item of a list. Kinds that make no objects are passed over.
func (o *objects) decode(document []byte) error {
	var head struct {
		APIVersion string                 `json:"apiVersion"`
		Kind       string                 `json:"kind"`
		Items      []runtime.RawExtension `json:"items"`
	}
	if err := yaml.Unmarshal(document, &head); err != nil {
		return err
	}
	for _, item := range head.Items {
		if err := o.decode(item.Raw); err != nil {
			return err
		}
	}
	if head.APIVersion != v1alpha1.SchemeGroupVersion.String() {
		return nil
	}
	switch head.Kind {
	case "ClusterClass":
		class := &v1alpha1.ClusterClass{}
		o.classes = append(o.classes, class)
		return strict(document, head.Kind, class)
	case "Workspace":
		ws := &v1alpha1.Workspace{}
		o.workspaces = append(o.workspaces, ws)
		return strict(document, head.Kind, ws)
	}
	return nil
}

func strict(document []byte, kind string, into any) error {
	if err := yaml.UnmarshalStrict(document, into); err != nil {
		return fmt.Errorf("decode %s: %w", kind, err)
	}
	return nil
}

// render prints what each Workspace becomes. One that becomes nothing is an error, which says why.
func (o *objects) render(out io.Writer, settings workspace.Settings) error {
	if len(o.workspaces) == 0 {
		return errors.New("there is no Workspace in the input")
	}
	var errs []error
	for _, ws := range o.workspaces {
		if ws.UID == "" {
			ws.UID = unknownUID
		}
		if ws.Namespace == "" {
			ws.Namespace = "default"
		}
		in := workspace.Input{Now: time.Now(), Settings: settings, Workspace: ws, Admitted: ws.Spec.ClusterClass}
		if i := slices.IndexFunc(o.classes, func(c *v1alpha1.ClusterClass) bool { return c.Name == ws.Spec.ClusterClass }); i >= 0 {
			in.Class = o.classes[i]
		}
		plan := workspace.Make(in)
		for _, write := range plan.Apply {
			if err := printObject(out, write.Config); err != nil {
				return err
			}
		}
		if len(plan.Apply) == 0 {
			errs = append(errs, fmt.Errorf("workspace %s/%s: %s", ws.Namespace, ws.Name, workspace.Why(plan.Status)))
		}
	}
	return errors.Join(errs...)
}

func printObject(out io.Writer, config reconcile.Config) error {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(config)
	if err != nil {
		return fmt.Errorf("print %s: %w", *config.GetKind(), err)
	}
	content, err := yaml.Marshal(object)
	if err != nil {
		return fmt.Errorf("print %s: %w", *config.GetKind(), err)
	}
	_, err = fmt.Fprintf(out, "---\n%s", content)
	return err
}
