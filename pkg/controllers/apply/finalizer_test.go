// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/apply"
	formspecac "github.com/formspec/formspec-operator/pkg/generated/applyconfiguration/formspec/v1alpha1"
	formspecfake "github.com/formspec/formspec-operator/pkg/generated/clientset/versioned/fake"
)

const finalizer = v1alpha1.WorkspaceFinalizer

// workspace is on the server with the finalizers of others, as a user's tool wrote them.
func workspace(t *testing.T, deleted bool, finalizers ...string) *formspecfake.Clientset {
	t.Helper()
	client := formspecfake.NewClientset()
	ws := &v1alpha1.Workspace{ObjectMeta: existing("ours")}
	ws.Finalizers = finalizers
	if deleted {
		ws.DeletionTimestamp = new(metav1.Now())
	}
	if _, err := client.FormspecV1alpha1().Workspaces("bank").Create(t.Context(), ws, metav1.CreateOptions{FieldManager: "kubectl"}); err != nil {
		t.Fatal(err)
	}
	client.ClearActions()
	return client
}

func identity() *formspecac.WorkspaceApplyConfiguration {
	return formspecac.Workspace("shop", "bank").WithUID("ours")
}

func TestAddFinalizerKeepsThoseOfOthers(t *testing.T) {
	client := workspace(t, false, "example.com/theirs")
	api := client.FormspecV1alpha1().Workspaces("bank")
	written, err := apply.AddFinalizer(t.Context(), api, "formspec-test", identity().WithFinalizers(finalizer))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"example.com/theirs", finalizer}; !slices.Equal(slices.Sorted(slices.Values(written.Finalizers)), want) {
		t.Errorf("finalizers %q, want %q", written.Finalizers, want)
	}
}

func TestRemoveFinalizer(t *testing.T) {
	for name, row := range map[string]struct {
		theirs  []string // written by updates of others
		applied bool     // ours was applied by us
		want    []string
		gone    bool
	}{
		"the last one":              {nil, true, nil, true},
		"others hold it still":      {[]string{"example.com/theirs"}, true, []string{"example.com/theirs"}, false},
		"another operator wrote it": {[]string{finalizer}, false, nil, true},
		"another operator wrote it, and others hold it still": {
			[]string{"example.com/theirs", finalizer}, false, []string{"example.com/theirs"}, false,
		},
		"both another operator and we wrote it": {[]string{finalizer}, true, nil, true},
		"it is not there":                       {[]string{"example.com/theirs"}, false, []string{"example.com/theirs"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			client := workspace(t, true, row.theirs...)
			api := client.FormspecV1alpha1().Workspaces("bank")
			if row.applied {
				if _, err := apply.AddFinalizer(t.Context(), api, "formspec-test", identity().WithFinalizers(finalizer)); err != nil {
					t.Fatal(err)
				}
			}
			object, err := api.Get(t.Context(), "shop", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			client.ClearActions()
			written, gone, err := apply.RemoveFinalizer(t.Context(), api, "formspec-test", finalizer, object)
			if err != nil || gone != row.gone || !slices.Equal(written.Finalizers, row.want) {
				t.Errorf("finalizers %q, gone %v, error %v; want %q, gone %v", written.Finalizers, gone, err, row.want, row.gone)
			}
			if got := len(client.Actions()); got != 1 {
				t.Errorf("%d requests, want 1", got)
			}
		})
	}
}

func TestAFinalizerOfAnObjectThatIsGone(t *testing.T) {
	workspaces := v1alpha1.SchemeGroupVersion.WithResource("workspaces").GroupResource()
	for name, row := range map[string]struct {
		err  error
		gone bool
	}{
		"no object of the name": {apierrors.NewNotFound(workspaces, "shop"), true},
		"it has changed":        {apierrors.NewConflict(workspaces, "shop", errors.New("resourceVersion")), false},
		"a refusal":             {apierrors.NewForbidden(workspaces, "shop", errors.New("no")), false},
	} {
		t.Run(name, func(t *testing.T) {
			client := workspace(t, true, finalizer)
			client.PrependReactor("patch", "workspaces", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if patch := string(action.(clienttesting.PatchAction).GetPatch()); !strings.Contains(patch, `"resourceVersion":"7"`) {
					t.Errorf("the object was patched without a precondition: %s", patch)
				}
				return true, nil, row.err
			})
			object := &v1alpha1.Workspace{ObjectMeta: existing("ours")}
			object.Finalizers, object.ResourceVersion = []string{finalizer}, "7"
			_, gone, err := apply.RemoveFinalizer(t.Context(), client.FormspecV1alpha1().Workspaces("bank"), "formspec-test", finalizer, object)
			if gone != row.gone || (err == nil) != row.gone || (err != nil && !errors.Is(err, row.err)) {
				t.Errorf("gone %v, error %v; want gone %v", gone, err, row.gone)
			}
		})
	}
}
