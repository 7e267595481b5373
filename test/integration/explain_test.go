// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// "kubectl get formspec" answers what there is, how it is and why: every column has a value. FR-55.
func TestColumns(t *testing.T) {
	t.Parallel()
	s := given(t)
	class := s.class(full, limit(5), func(c *v1alpha1.ClusterClass) {
		c.Spec.SLA, c.Spec.Region = "99.99", "jakarta"
	})
	s.workspace("good", class, func(ws *v1alpha1.Workspace) { ws.Spec.Environment = v1alpha1.EnvironmentProd }).ready()
	s.workspace("bad", class, func(ws *v1alpha1.Workspace) {
		ws.Spec.Environment, ws.Spec.Region = v1alpha1.EnvironmentProd, "surabaya"
	}).failing(v1alpha1.ReasonRegionMismatch)
	me := s.publishedOwner()
	me.datastore("files", v1alpha1.DriverFS, "/srv/files").ready()
	me.datastore("lost", v1alpha1.DriverFS, "").failing(v1alpha1.ReasonSecretNotFound)
	me.grant("files", "files", "good", version2(time.Now().Add(time.Hour))).approved()
	me.grant("stale", "files", "bad", both(version2(time.Now().Add(-time.Second)), grantedAt(time.Now().Add(-time.Hour)))).denied(v1alpha1.ReasonExpired)
	s.eventually("the class counts", func() error {
		return s.classSays(class.Name, v1alpha1.ConditionInUse, metav1.ConditionTrue, v1alpha1.ReasonInUse, "2 workspaces")
	})

	for _, row := range []struct {
		what    string
		args    []string
		columns []string
	}{
		{"Workspaces", []string{"ws"}, []string{"NAME", "READY", "REASON", "PHASE", "CLASS", "REPLICAS", "AGE"}},
		{"Workspaces, wide", []string{"workspaces", "-o", "wide"}, []string{"NAME", "READY", "REASON", "PHASE", "CLASS", "REPLICAS", "ENVIRONMENT", "MESSAGE", "AGE"}},
		{"classes", []string{"fcc", class.Name}, []string{"NAME", "READY", "REASON", "WORKSPACES", "MAX", "SLA", "AGE"}},
		{"classes, wide", []string{"clusterclass", class.Name, "-o", "wide"}, []string{"NAME", "READY", "REASON", "WORKSPACES", "MAX", "SLA", "REGION", "AGE"}},
		{"datastores", []string{"fds"}, []string{"NAME", "READY", "REASON", "DRIVER", "OWNER", "AGE"}},
		{"datastores, wide", []string{"datastores", "-o", "wide"}, []string{"NAME", "READY", "REASON", "DRIVER", "OWNER", "MESSAGE", "AGE"}},
		{"claims", []string{"frc"}, []string{"NAME", "READY", "REASON", "DATASTORE", "WORKSPACE", "PERMISSION", "AGE"}},
		{"claims, wide", []string{"resourceclaims.formspec.dev", "-o", "wide"}, []string{"NAME", "READY", "REASON", "DATASTORE", "WORKSPACE", "PERMISSION", "EXPIRES", "MESSAGE", "AGE"}},
		{"the category, here", []string{"formspec"}, nil},
	} {
		t.Run(row.what, func(t *testing.T) {
			out := s.kubectl(append([]string{"get"}, row.args...)...)
			if row.columns == nil {
				for _, want := range []string{
					"clusterclass.formspec.dev/" + class.Name, "workspace.formspec.dev/good", "workspace.formspec.dev/bad",
					"datastore.formspec.dev/files", "resourceclaim.formspec.dev/files",
				} {
					if !strings.Contains(out, want) {
						t.Errorf("%s is missing:\n%s", want, out)
					}
				}
				return
			}
			lines := strings.Split(strings.TrimSpace(out), "\n")
			if have := strings.Fields(lines[0]); !slices.Equal(have, row.columns) {
				t.Errorf("the columns are %q, want %q", have, row.columns)
			}
			for _, line := range lines[1:] {
				for i, column := range cells(lines[0], line) {
					if column == "" || column == "<none>" || column == "<unknown>" {
						t.Errorf("column %s is empty:\n%s", strings.Fields(lines[0])[i], out)
					}
				}
			}
		})
	}
	if out := s.kubectl("get", "formspec", "-A"); !strings.Contains(out, s.namespace) {
		t.Errorf("the category in all namespaces lacks this one:\n%s", out)
	}
}

// No short name of ours is anybody else's, as "rc" and "ds" would be, and no plural or singular of ours is Kubernetes' own but those of
// ResourceClaim, which is asked for by its full name. FR-55.
func TestShortNames(t *testing.T) {
	t.Parallel()
	s := given(t)
	lists, err := s.kube.Discovery().ServerPreferredResources()
	s.must("discover what there is", err)
	called := map[string][]string{}
	for _, list := range lists {
		for _, r := range list.APIResources {
			for _, name := range append(r.ShortNames, r.Name, r.SingularName) {
				called[name] = append(called[name], list.GroupVersion)
			}
		}
	}
	ours := v1alpha1.SchemeGroupVersion.String()
	seen := 0
	for name, groups := range called {
		if !slices.Contains(groups, ours) {
			continue
		}
		seen++
		if known := name == "resourceclaims" || name == "resourceclaim"; len(groups) > 1 && !known {
			t.Errorf("%q is a name of %q", name, groups)
		}
	}
	if seen != 4*3 {
		t.Errorf("our kinds have %d names, want a plural, a singular and a short one each", seen)
	}
}

// cells cuts a line of a table at the beginnings of its columns.
func cells(header, line string) []string {
	var starts []int
	for i := range header {
		if header[i] != ' ' && (i == 0 || header[i-1] == ' ') {
			starts = append(starts, i)
		}
	}
	var all []string
	for i, start := range starts {
		end := len(line)
		if i+1 < len(starts) {
			end = min(end, starts[i+1])
		}
		all = append(all, strings.TrimSpace(line[min(start, len(line)):end]))
	}
	return all
}

// Every field is explained, by the API server itself. FR-55.
func TestExplain(t *testing.T) {
	t.Parallel()
	s := given(t)
	var list struct {
		Items []struct {
			Metadata metav1.ObjectMeta
			Spec     struct {
				Names    struct{ Kind, Singular string }
				Versions []struct {
					Schema struct{ OpenAPIV3Schema described }
				}
			}
		}
	}
	out := s.kubectl("get", "crd", "-o", "json")
	s.must("decode the CRDs", json.Unmarshal([]byte(out), &list))
	seen := 0
	for _, crd := range list.Items {
		if !strings.HasSuffix(crd.Metadata.Name, "."+v1alpha1.GroupName) {
			continue
		}
		seen++
		t.Run(crd.Spec.Names.Kind, func(t *testing.T) {
			for _, path := range crd.Spec.Versions[0].Schema.OpenAPIV3Schema.unexplained("") {
				t.Errorf("field %s has no description", path)
			}
			for _, path := range []string{"", ".spec", ".status", ".spec --recursive"} {
				out := s.kubectl(append([]string{"explain"}, strings.Fields(crd.Spec.Names.Singular+path)...)...)
				if strings.Contains(out, "<no description>") || !strings.Contains(out, "FIELD") {
					t.Errorf("kubectl explain %s%s:\n%s", crd.Spec.Names.Singular, path, out)
				}
			}
		})
	}
	if seen != 4 {
		t.Errorf("there are %d kinds, want 4", seen)
	}
}

// described is as much of an OpenAPI schema as descriptions need.
type described struct {
	Description string               `json:"description"`
	Properties  map[string]described `json:"properties"`
	Items       *described           `json:"items"`
	Additional  json.RawMessage      `json:"additionalProperties"`
}

// unexplained are the fields below without a description. metadata is Kubernetes' own.
func (s described) unexplained(path string) []string {
	var all []string
	if s.Description == "" && path != ".metadata" {
		all = append(all, path)
	}
	for name, property := range s.Properties {
		all = append(all, property.unexplained(path+"."+name)...)
	}
	if s.Items != nil {
		for name, property := range s.Items.Properties {
			all = append(all, property.unexplained(fmt.Sprintf("%s[].%s", path, name))...)
		}
	}
	slices.Sort(all)
	return all
}
