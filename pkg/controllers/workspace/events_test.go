// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// wakes are the keys that are woken by what is done, and how soon.
func (f *fixture) wakes(do func()) map[string]urgency {
	f.t.Helper()
	if left := f.woken(); len(left) > 0 {
		f.t.Fatalf("%q are in the queue before", left)
	}
	do()
	synctest.Wait()
	all := map[string]urgency{}
	for _, key := range f.woken() {
		all[key] = now
	}
	<-time.After(100 * time.Millisecond)
	synctest.Wait()
	for _, key := range f.woken() {
		all[key] = soon
	}
	<-time.After(time.Minute)
	synctest.Wait()
	if late := f.woken(); len(late) > 0 {
		f.t.Errorf("%q are woken a minute later", late)
	}
	return all
}

// quietly gives the test a fixture whose queue is empty, and whose workspace "shop" has been seen.
func quietly(t *testing.T, objects []runtime.Object, test func(f *fixture)) {
	t.Helper()
	run(t, objects, func(f *fixture) {
		f.woken()
		test(f)
	})
}

func TestWhatOfAWorkspaceWakesIt(t *testing.T) {
	before := aWorkspace(func(ws *v1alpha1.Workspace) {
		ws.ResourceVersion, ws.Labels, ws.Annotations = "7", map[string]string{"a": "b"}, map[string]string{"c": "d"}
		ws.Finalizers = []string{v1alpha1.WorkspaceFinalizer}
	})
	for name, row := range map[string]struct {
		change func(*v1alpha1.Workspace)
		ours   bool // the new version is of our own write
		want   urgency
	}{
		"nothing":                       {func(*v1alpha1.Workspace) {}, false, never},
		"its status, by ourselves":      {func(ws *v1alpha1.Workspace) { ws.Status.Phase = v1alpha1.PhaseReady }, true, never},
		"its status, by somebody else":  {func(ws *v1alpha1.Workspace) { ws.Status.Phase = v1alpha1.PhaseReady }, false, never},
		"its spec":                      {func(ws *v1alpha1.Workspace) { ws.Generation++ }, false, now},
		"a label":                       {func(ws *v1alpha1.Workspace) { ws.Labels = nil }, false, now},
		"an annotation":                 {func(ws *v1alpha1.Workspace) { ws.Annotations = map[string]string{v1alpha1.AnnotationIdle: "true"} }, false, now},
		"its deletion":                  {func(ws *v1alpha1.Workspace) { ws.DeletionTimestamp = new(metav1.Now()) }, false, now},
		"another of its name":           {func(ws *v1alpha1.Workspace) { ws.UID = "uid-of-the-next-shop" }, false, now},
		"a finalizer, by ourselves":     {func(ws *v1alpha1.Workspace) { ws.Finalizers = append(ws.Finalizers, "x") }, true, never},
		"a finalizer, by somebody else": {func(ws *v1alpha1.Workspace) { ws.Finalizers = nil }, false, now},
		"its spec, before our own write and seen together with it": {
			func(ws *v1alpha1.Workspace) { ws.Generation++; ws.Status.Phase = v1alpha1.PhaseReady }, true, now,
		},
		"an annotation, before our own write and seen together with it": {
			func(ws *v1alpha1.Workspace) { ws.Annotations = nil }, true, now,
		},
	} {
		t.Run(name, func(t *testing.T) {
			quietly(t, []runtime.Object{aClass()}, func(f *fixture) {
				after := before.DeepCopy()
				after.ResourceVersion = "8"
				row.change(after)
				if row.ours {
					f.memory.Wrote(shop, &version{"7"}, "8")
				}
				got := f.wakes(func() { f.workspaceHandler().OnUpdate(before, after) })
				if got["bank/shop"] != row.want {
					f.t.Errorf("woken %v, want %v", got, row.want)
				}
				if row.ours && f.memory.Echo(shop, "8") {
					f.t.Error("our own write is still waited for")
				}
			})
		})
	}
}

func TestAWorkspaceThatComesOrGoesWakes(t *testing.T) {
	quietly(t, nil, func(f *fixture) {
		for name, do := range map[string]func(){
			"it comes":                  func() { f.workspaceHandler().OnAdd(aWorkspace(), false) },
			"it was there at the start": func() { f.workspaceHandler().OnAdd(aWorkspace(), true) },
			"it goes": func() {
				f.workspaceHandler().OnDelete(cache.DeletedObject[*v1alpha1.Workspace]{OptionalObj: aWorkspace()})
			},
			"it went unseen": func() {
				f.workspaceHandler().OnDelete(cache.DeletedObject[*v1alpha1.Workspace]{FinalStateUnknown: &cache.DeletedFinalStateUnknown{Key: "bank/shop"}})
			},
		} {
			if got := f.wakes(do); got["bank/shop"] != now {
				f.t.Errorf("%s: woken %v, want now", name, got)
			}
		}
	})
}

func TestWhatOfAClassWakesItsWorkspaces(t *testing.T) {
	before := aClass(func(c *v1alpha1.ClusterClass) {
		c.UID, c.Labels = "uid", map[string]string{v1alpha1.LabelRegion: "jakarta"}
	})
	other := aWorkspace(func(ws *v1alpha1.Workspace) {
		ws.Name, ws.UID, ws.Spec.ClusterClass = "ledger", "uid-of-ledger", "other"
	})
	more := aWorkspace(func(ws *v1alpha1.Workspace) { ws.Name, ws.UID = "till", "uid-of-till" })
	update := func(change func(*v1alpha1.ClusterClass)) func(f *fixture) {
		return func(f *fixture) {
			after := before.DeepCopy()
			change(after)
			f.classHandler().OnUpdate(before, after)
		}
	}
	for name, row := range map[string]struct {
		do    func(f *fixture)
		wakes bool
	}{
		"it was there at the start": {func(f *fixture) { f.classHandler().OnAdd(before, true) }, false},
		"it comes":                  {func(f *fixture) { f.classHandler().OnAdd(before, false) }, true},
		"its spec changes":          {update(func(c *v1alpha1.ClusterClass) { c.Generation++ }), true},
		"its region label changes":  {update(func(c *v1alpha1.ClusterClass) { c.Labels = nil }), true},
		"it is made anew":           {update(func(c *v1alpha1.ClusterClass) { c.UID = "next" }), true},
		"its status changes":        {update(func(c *v1alpha1.ClusterClass) { c.Status.Workspaces++ }), false},
		"another label changes":     {update(func(c *v1alpha1.ClusterClass) { c.Labels["team"] = "x" }), false},
		"it goes": {func(f *fixture) {
			f.classHandler().OnDelete(cache.DeletedObject[*v1alpha1.ClusterClass]{OptionalObj: before})
		}, true},
		"it went unseen": {func(f *fixture) {
			f.classHandler().OnDelete(cache.DeletedObject[*v1alpha1.ClusterClass]{FinalStateUnknown: &cache.DeletedFinalStateUnknown{Key: "standard"}})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			quietly(t, []runtime.Object{aWorkspace(), more, other}, func(f *fixture) {
				got := f.wakes(func() { row.do(f) })
				if want := map[string]urgency{"bank/shop": now, "bank/till": now}; row.wakes && (len(got) != 2 || got["bank/shop"] != now || got["bank/till"] != now) {
					f.t.Errorf("woken %v, want %v", got, want)
				}
				if !row.wakes && len(got) > 0 {
					f.t.Errorf("woken %v, want nobody", got)
				}
			})
		})
	}
}

func TestWhatOfThePodsWakesTheirWorkspace(t *testing.T) {
	before := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "shop-1", Labels: map[string]string{v1alpha1.LabelWorkspace: "shop"}}}
	for name, row := range map[string]struct {
		change func(*corev1.Pod)
		want   urgency
	}{
		"nothing":     {func(*corev1.Pod) {}, never},
		"its phase":   {func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }, never},
		"a condition": {func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}} }, soon},
		"a container": {func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 1}} }, soon},
		"a pod of nobody's": {func(p *corev1.Pod) {
			p.Labels, p.Status.Conditions = nil, []corev1.PodCondition{{Type: corev1.PodReady}}
		}, never},
		"a pod of another namespace": {func(p *corev1.Pod) {
			p.Namespace, p.Status.Conditions = "other", []corev1.PodCondition{{Type: corev1.PodReady}}
		}, never},
	} {
		t.Run(name, func(t *testing.T) {
			quietly(t, []runtime.Object{aWorkspace()}, func(f *fixture) {
				after := before.DeepCopy()
				row.change(after)
				if got := f.wakes(func() { f.podHandler().OnUpdate(before, after) }); got["bank/shop"] != row.want {
					f.t.Errorf("woken %v, want %v", got, row.want)
				}
			})
		})
	}
}

func TestWhatOfTheCredentialsWakesTheirWorkspace(t *testing.T) {
	secret := func(changes ...func(*corev1.Secret)) *corev1.Secret {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: credentialsName, ResourceVersion: "7", Annotations: map[string]string{v1alpha1.AnnotationWorkspaceName: "shop"},
		}}
		for _, change := range changes {
			change(s)
		}
		return s
	}
	retained := func(s *corev1.Secret) { s.Labels = map[string]string{v1alpha1.LabelRetained: "true"} }
	nameless := func(s *corev1.Secret) { s.Annotations, s.ResourceVersion = nil, "8" }
	renamed := func(s *corev1.Secret) { s.Name = "something-else" }
	for name, row := range map[string]struct {
		do   func(cache.TypedResourceEventHandler[*corev1.Secret])
		want urgency
	}{
		"it comes": {func(h cache.TypedResourceEventHandler[*corev1.Secret]) { h.OnAdd(secret(), false) }, soon},
		"it was there at the start: its workspace may have vanished meanwhile": {
			func(h cache.TypedResourceEventHandler[*corev1.Secret]) { h.OnAdd(secret(), true) }, soon,
		},
		"it was retained before": {func(h cache.TypedResourceEventHandler[*corev1.Secret]) { h.OnAdd(secret(retained), true) }, never},
		"it changes":             {func(h cache.TypedResourceEventHandler[*corev1.Secret]) { h.OnUpdate(secret(), secret()) }, now},
		"its mark is taken off":  {func(h cache.TypedResourceEventHandler[*corev1.Secret]) { h.OnUpdate(secret(), secret(nameless)) }, now},
		"its mark is put on":     {func(h cache.TypedResourceEventHandler[*corev1.Secret]) { h.OnUpdate(secret(nameless), secret()) }, now},
		"it goes": {func(h cache.TypedResourceEventHandler[*corev1.Secret]) {
			h.OnDelete(cache.DeletedObject[*corev1.Secret]{OptionalObj: secret()})
		}, now},
		"it went unseen": {func(h cache.TypedResourceEventHandler[*corev1.Secret]) {
			h.OnDelete(cache.DeletedObject[*corev1.Secret]{FinalStateUnknown: &cache.DeletedFinalStateUnknown{Key: "bank/" + credentialsName}})
		}, never},
		"another Secret that names the workspace": {func(h cache.TypedResourceEventHandler[*corev1.Secret]) { h.OnUpdate(secret(renamed), secret(renamed)) }, never},
	} {
		t.Run(name, func(t *testing.T) {
			quietly(t, []runtime.Object{aWorkspace()}, func(f *fixture) {
				if got := f.wakes(func() { row.do(f.secretHandler()) }); got["bank/shop"] != row.want || (row.want == never && len(got) > 0) {
					f.t.Errorf("woken %v, want %v", got, row.want)
				}
			})
		})
	}
}

func TestOurOwnWriteOfTheCredentialsWakesNobody(t *testing.T) {
	quietly(t, []runtime.Object{aWorkspace()}, func(f *fixture) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: credentialsName, ResourceVersion: "8", Annotations: map[string]string{v1alpha1.AnnotationWorkspaceName: "shop"},
		}}
		f.memory.Wrote(shop, &version{"7"}, "8")
		if got := f.wakes(func() { f.secretHandler().OnAdd(secret, false) }); len(got) > 0 {
			f.t.Errorf("woken %v, want nobody", got)
		}
	})
}

// A key that is woken several times at once is looked at once.
func TestChangesThatComeInAGroupAreLookedAtOnce(t *testing.T) {
	quietly(t, []runtime.Object{aWorkspace()}, func(f *fixture) {
		for range 10 {
			f.enqueue(shop, soon)
			<-time.After(5 * time.Millisecond)
		}
		synctest.Wait()
		if got := f.woken(); len(got) > 0 {
			f.t.Errorf("woken %q before 100 ms are over", got)
		}
		<-time.After(100 * time.Millisecond)
		synctest.Wait()
		if got := f.woken(); !slices.Equal(got, []string{"bank/shop"}) {
			f.t.Errorf("woken %q, want the key once", got)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if got := f.woken(); len(got) > 0 {
			f.t.Errorf("woken %q again", got)
		}
	})
}
