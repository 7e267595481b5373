// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// samples are the folders of testdata. Each holds what is given, a class and a workspace as a user types them, and the children that an
// empty cluster gets, in the order in which they are written.
var samples = []string{"bank-mandiri", "economy", "spread-required", "canary-image", "dotted-name", "long-name"}

func TestChildrenOfSamples(t *testing.T) {
	for _, name := range samples {
		t.Run(name, func(t *testing.T) {
			got := render(t, sample(t, name))
			golden := filepath.Join("testdata", name, "children.yaml")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("children differ from %s; if that is right, run: go test ./pkg/reconcile/workspace -update\n%s",
					golden, diff.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")))
			}
		})
	}
}

// sample is what is given in a folder of testdata.
func sample(t *testing.T, name string) workspace.Input {
	t.Helper()
	folder := filepath.Join("testdata", name)
	in := given(settings(func(s *workspace.Settings) { s.ControlURL = "https://control.example.com" }), activators("10.0.0.1", "10.0.0.2"))
	text, err := os.ReadFile(filepath.Join(folder, "given.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var object any = &v1alpha1.ClusterClass{}
		if bytes.Contains(document, []byte("\nkind: Workspace\n")) {
			object = &v1alpha1.Workspace{}
		}
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			t.Fatalf("%s: %v", folder, err)
		}
		switch o := object.(type) {
		case *v1alpha1.ClusterClass:
			in.Class = o
		case *v1alpha1.Workspace:
			o.Namespace, o.UID = "tenant", "0a1b2c3d"
			in.Workspace = o
		}
	}
	if in.Workspace.Spec.ClusterClass != in.Class.Name {
		t.Fatalf("%s: class %q is not the workspace's %q", folder, in.Class.Name, in.Workspace.Spec.ClusterClass)
	}
	return then(in) // a slot of the sample's class
}

// render is what the plan writes, as YAML documents in order.
func render(t *testing.T, in workspace.Input) []byte {
	t.Helper()
	var out bytes.Buffer
	for i, write := range workspace.Make(in).Apply {
		if i > 0 {
			out.WriteString("---\n")
		}
		text, err := yaml.Marshal(write.Config)
		if err != nil {
			t.Fatalf("%s: %v", ptr.Deref(write.Config.GetKind(), ""), err)
		}
		out.Write(text)
	}
	return out.Bytes()
}
