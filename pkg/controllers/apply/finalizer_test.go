// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply_test

import (
	"errors"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

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
		ws.DeletionTimestamp = ptr.To(metav1.Now())
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
		patches int
	}{
		"the last one":              {nil, true, nil, true, 1},
		"others hold it still":      {[]string{"example.com/theirs"}, true, []string{"example.com/theirs"}, false, 1},
		"another operator wrote it": {[]string{finalizer}, false, nil, true, 2},
		"another operator wrote it, and others hold it still": {
			[]string{"example.com/theirs", finalizer}, false, []string{"example.com/theirs"}, false, 2,
		},
		"both another operator and we wrote it": {[]string{finalizer}, true, nil, true, 2},
		"it is not there":                       {[]string{"example.com/theirs"}, false, []string{"example.com/theirs"}, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			client := workspace(t, true, row.theirs...)
			api := client.FormspecV1alpha1().Workspaces("bank")
			if row.applied {
				if _, err := apply.AddFinalizer(t.Context(), api, "formspec-test", identity().WithFinalizers(finalizer)); err != nil {
					t.Fatal(err)
				}
			}
			client.ClearActions()
			written, gone, err := apply.RemoveFinalizer(t.Context(), api, "formspec-test", finalizer, identity())
			if err != nil || gone != row.gone || !slices.Equal(written.Finalizers, row.want) {
				t.Errorf("finalizers %q, gone %v, error %v; want %q, gone %v", written.Finalizers, gone, err, row.want, row.gone)
			}
			if got := len(client.Actions()); got != row.patches {
				t.Errorf("%d requests, want %d", got, row.patches)
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
		"another UID":           {apierrors.NewConflict(workspaces, "shop", errors.New("uid")), true},
		"a refusal":             {apierrors.NewForbidden(workspaces, "shop", errors.New("no")), false},
	} {
		t.Run(name, func(t *testing.T) {
			client := workspace(t, true, finalizer)
			client.PrependReactor("patch", "workspaces", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if action.(clienttesting.PatchAction).GetPatchType() != types.ApplyPatchType {
					t.Error("the object was patched without a precondition")
				}
				return true, nil, row.err
			})
			_, gone, err := apply.RemoveFinalizer(t.Context(), client.FormspecV1alpha1().Workspaces("bank"), "formspec-test", finalizer, identity())
			if gone != row.gone || (err == nil) != row.gone || (err != nil && !errors.Is(err, row.err)) {
				t.Errorf("gone %v, error %v; want gone %v", gone, err, row.gone)
			}
		})
	}
}
