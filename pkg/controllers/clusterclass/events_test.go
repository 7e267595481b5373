// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterclass

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// expectWoken compares the keys that are due at once, and those that are due after a batch. It needs a bubble.
func (f *fixture) expectWoken(now, later []string) {
	f.Helper()
	if got := f.woken(); !slices.Equal(got, now) {
		f.Errorf("woken at once: %q, want %q", got, now)
	}
	<-time.After(batch)
	synctest.Wait()
	if got := f.woken(); !slices.Equal(got, later) {
		f.Errorf("woken later: %q, want %q", got, later)
	}
}

func TestWhatHappensToAClassWakesIt(t *testing.T) {
	version := func(v string) func(*v1alpha1.ClusterClass) {
		return func(c *v1alpha1.ClusterClass) { c.ResourceVersion = v }
	}
	for name, row := range map[string]struct {
		cur  *v1alpha1.ClusterClass
		want []string
	}{
		"its spec":                       {std(version("8"), func(c *v1alpha1.ClusterClass) { c.Generation++ }), []string{"std"}},
		"its finalizers":                 {std(version("8"), held), []string{"std"}},
		"its deletion":                   {std(version("8"), deleted), []string{"std"}},
		"it is another":                  {std(version("8"), func(c *v1alpha1.ClusterClass) { c.UID = "another" }), []string{"std"}},
		"its status":                     {std(version("8"), func(c *v1alpha1.ClusterClass) { c.Status.Workspaces++ }), nil},
		"what we wrote ourselves":        {std(version("100"), held), nil},
		"that, with a user's":            {std(version("100"), held, func(c *v1alpha1.ClusterClass) { c.Generation++ }), []string{"std"}},
		"a label, which nothing depends": {std(version("8"), func(c *v1alpha1.ClusterClass) { c.Labels = map[string]string{"a": "b"} }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := given(t, std())
				f.memory.Wrote(key, store("7"), "100")
				f.classHandler().OnUpdate(std(), row.cur)
				f.expectWoken(row.want, nil)
			})
		})
	}
}

func TestAClassThatComesOrGoesIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := given(t, nil)
		f.classHandler().OnAdd(std(), true)
		f.expectWoken([]string{"std"}, nil)
		f.classHandler().OnDelete(cache.DeletedObject[*v1alpha1.ClusterClass]{OptionalObj: std()})
		f.expectWoken([]string{"std"}, nil)
	})
}

func TestWhatHappensToAWorkspaceWakesItsClass(t *testing.T) {
	at, later := []string{"std"}, []string{"std"}
	for name, row := range map[string]struct {
		class      *v1alpha1.ClusterClass
		now, later []string
	}{
		"a class that is not held is held at once":     {std(), at, nil},
		"a class that is going may go at once":         {std(held, deleted), at, nil},
		"the numbers of a class come after a while":    {std(held), nil, later},
		"a class that there is not is woken by itself": {nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ws := workspace("a/a")
				f := given(t, row.class)
				f.workspaceHandler().OnAdd(ws, false)
				f.expectWoken(row.now, row.later)
				f.workspaceHandler().OnDelete(cache.DeletedObject[*v1alpha1.Workspace]{OptionalObj: ws})
				f.expectWoken(row.now, row.later)
				f.workspaceHandler().OnDelete(cache.DeletedObject[*v1alpha1.Workspace]{})
				f.expectWoken(nil, nil)
				labelled := workspace("a/a")
				labelled.Labels = map[string]string{"a": "b"}
				f.workspaceHandler().OnUpdate(ws, labelled)
				f.expectWoken(nil, nil)
			})
		})
	}
}

func TestAWorkspaceThatMovesWakesBothClasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := given(t, std(held, deleted))
		f.must(f.classes.Add(&v1alpha1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Name: "pro"}}))
		moved := workspace("a/a")
		moved.Spec.ClusterClass = "pro"
		f.workspaceHandler().OnUpdate(workspace("a/a"), moved)
		f.expectWoken([]string{"std", "pro"}, nil)
	})
}

func TestSlotsThatAreTakenOrFreedWakeTheClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := given(t, std(held))
		f.ledger.Enter(workspace("a/a"), std())
		f.ledger.Enter(workspace("a/b"), std())
		f.expectWoken(nil, []string{"std"}) // once for both
		f.ledger.Release("uid of a")
		f.expectWoken(nil, []string{"std"})
	})
}
