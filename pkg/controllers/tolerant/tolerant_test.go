// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package tolerant

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/generated/clientset/versioned/scheme"
)

func decode(t *testing.T, document string, into runtime.Object) error {
	t.Helper()
	s := Serializer(rest.CodecFactoryForGeneratedClient(scheme.Scheme, scheme.Codecs).WithoutConversion())
	info, ok := runtime.SerializerInfoForMediaType(s.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		t.Fatal("no JSON serializer")
	}
	_, _, err := s.DecoderToVersion(info.Serializer, v1alpha1.SchemeGroupVersion).Decode([]byte(document), nil, into)
	return err
}

const list = `{"apiVersion":"formspec.dev/v1alpha1","kind":"WorkspaceList","metadata":{"resourceVersion":"7"},"items":[
	{"metadata":{"name":"good"},"spec":{"clusterClass":"c"}},
	{"metadata":{"name":"bad","uid":"u","annotations":{"a":"b"}},"spec":{"clusterClass":"c","resources":{"cpu":2}},"status":{"phase":"Ready"}},
	{"metadata":{"name":"worse"},"spec":{"clusterClass":[]},"status":{"phase":7}}]}`

func TestOneBadItemDoesNotSpoilTheList(t *testing.T) {
	var got v1alpha1.WorkspaceList
	if err := decode(t, list, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Items) != 3 || got.ResourceVersion != "7" {
		t.Fatalf("got %d items at %q, want 3 at 7", len(got.Items), got.ResourceVersion)
	}
	good, bad, worse := got.Items[0], got.Items[1], got.Items[2]
	if good.Spec.ClusterClass != "c" || good.Annotations[v1alpha1.AnnotationUndecodable] != "" {
		t.Errorf("the good one came as %+v", good)
	}
	if bad.Spec.ClusterClass != "c" || worse.Spec.ClusterClass != "" {
		t.Errorf("the classes came as %q and %q, want c and none", bad.Spec.ClusterClass, worse.Spec.ClusterClass)
	}
	if bad.UID != "u" || bad.Annotations["a"] != "b" || bad.Status.Phase != v1alpha1.PhaseReady ||
		!strings.Contains(bad.Annotations[v1alpha1.AnnotationUndecodable], "cpu") {
		t.Errorf("the bad one came as %+v", bad)
	}
	if worse.Annotations[v1alpha1.AnnotationUndecodable] == "" || worse.Status.Phase != "" {
		t.Errorf("the one with a bad status came as %+v", worse)
	}
}

func TestOneBadObject(t *testing.T) {
	var class v1alpha1.ClusterClass
	if err := decode(t, `{"apiVersion":"formspec.dev/v1alpha1","kind":"ClusterClass","metadata":{"name":"c"},"spec":{"maxWorkspaces":3000000000}}`, &class); err != nil {
		t.Fatal(err)
	}
	if class.Name != "c" || class.Annotations[v1alpha1.AnnotationUndecodable] == "" {
		t.Errorf("got %+v, want its name and what is wrong", class)
	}
}

func TestOtherErrorsStay(t *testing.T) {
	for name, document := range map[string]string{
		"no JSON":      "{",
		"another kind": `{"apiVersion":"v1","kind":"Pod","spec":7}`,
	} {
		if err := decode(t, document, &metav1.Status{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
