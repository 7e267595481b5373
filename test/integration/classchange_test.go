// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// shortLivedClass is a class that the test deletes itself.
func (s *scenario) shortLivedClass(name string, change ...func(*v1alpha1.ClusterClass)) *v1alpha1.ClusterClass {
	s.Helper()
	class := &v1alpha1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, f := range change {
		f(class)
	}
	api := s.formspec.FormspecV1alpha1().ClusterClasses()
	class, err := api.Create(s.Context(), class, metav1.CreateOptions{})
	s.must("create the class", err)
	s.Cleanup(func() {
		if err := api.Delete(contextBeyond(s), class.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			s.Errorf("delete the class: %v", err)
		}
	})
	return class
}

// classNow returns the class, or nil if there is none.
func (s *scenario) classNow(name string) *v1alpha1.ClusterClass {
	s.Helper()
	class, err := s.formspec.FormspecV1alpha1().ClusterClasses().Get(s.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	s.must("get the class", err)
	return class
}

// classSays returns an error unless the class has the condition.
func (s *scenario) classSays(name, conditionType string, status metav1.ConditionStatus, reason string, texts ...string) error {
	s.Helper()
	class := s.classNow(name)
	if class == nil {
		return fmt.Errorf("there is no class %s", name)
	}
	c := meta.FindStatusCondition(class.Status.Conditions, conditionType)
	if c == nil || c.Status != status || c.Reason != reason || c.ObservedGeneration != class.Generation {
		return fmt.Errorf("in generation %d it has %s %+v", class.Generation, conditionType, c)
	}
	for _, text := range texts {
		if !strings.Contains(c.Message, text) {
			return fmt.Errorf("the message of %s lacks %q: %s", conditionType, text, c.Message)
		}
	}
	return nil
}

// A class stays while a Workspace names it, also one that is going and is held by somebody; it says so, and admits nobody. FR-02.
func TestAClassThatIsDeletedWhileItIsUsed(t *testing.T) {
	t.Parallel()
	s := given(t)
	class := s.shortLivedClass(s.namespace, full)
	one, two := s.workspace("one", class).ready(), s.workspace("two", class).ready()
	s.eventually("the class is held", func() error {
		if class := s.classNow(class.Name); !slices.Contains(class.Finalizers, v1alpha1.ClusterClassFinalizer) {
			return fmt.Errorf("its finalizers are %q", class.Finalizers)
		}
		return s.classSays(class.Name, v1alpha1.ConditionInUse, metav1.ConditionTrue, v1alpha1.ReasonInUse, "2 workspaces", one.key(), two.key())
	})
	pods := one.podUIDs()

	// when
	s.kubectl("delete", "clusterclass", class.Name, "--wait=false")

	// then
	s.eventually("the class says that it is going", func() error {
		return s.classSays(class.Name, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonTerminating)
	})
	late := s.workspace("late", class)
	late.failing(v1alpha1.ReasonClassFull, "being deleted", "spec.clusterClass")
	late.delete(metav1.DeletePropagationBackground)
	two.delete(metav1.DeletePropagationBackground)
	s.eventually("one Workspace is left", func() error {
		return s.classSays(class.Name, v1alpha1.ConditionInUse, metav1.ConditionTrue, v1alpha1.ReasonInUse, "1 workspace names", one.key())
	})
	one.ready()
	if now := one.podUIDs(); !now.Equal(pods) {
		t.Errorf("the pods are %v, were %v", now, pods)
	}

	// when the last one is going
	one.patch(`{"metadata":{"finalizers":["` + v1alpha1.WorkspaceFinalizer + `","example.com/hold"]}}`)
	one.deleteWith(metav1.DeletePropagationBackground)
	s.eventually("only somebody holds it", func() error {
		if have := one.get().Finalizers; !slices.Equal(have, []string{"example.com/hold"}) {
			return fmt.Errorf("its finalizers are %q", have)
		}
		return nil
	})

	// then
	s.lasts(time.Second, "the class stays", func() error {
		return s.classSays(class.Name, v1alpha1.ConditionInUse, metav1.ConditionTrue, v1alpha1.ReasonInUse, "1 workspace names", one.key())
	})

	// when it is gone, so is the class
	one.patch(`{"metadata":{"finalizers":null}}`)
	s.eventually("the class is gone", func() error {
		if class := s.classNow(class.Name); class != nil {
			return fmt.Errorf("it has finalizers %q", class.Finalizers)
		}
		return nil
	})
}

// A class that somebody takes away by force leaves its Workspaces running, and deletable; when it is back, so are they. FR-02.
func TestAClassThatIsTakenAway(t *testing.T) {
	t.Parallel()
	s := given(t)
	class := s.shortLivedClass(s.namespace, full, limit(2))
	one, two := s.workspace("one", class).ready(), s.workspace("two", class).ready()
	pods, children := one.podUIDs(), one.applied()
	takeAway := func() {
		s.eventually("the class is held", func() error {
			if class := s.classNow(class.Name); len(class.Finalizers) == 0 {
				return errors.New("it has no finalizer")
			}
			return nil
		})
		s.kubectl("delete", "clusterclass", class.Name, "--wait=false")
		s.kubectl("patch", "clusterclass", class.Name, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
		if class := s.classNow(class.Name); class != nil {
			t.Fatalf("the class is still there: %+v", class.ObjectMeta)
		}
	}

	// when
	takeAway()

	// then
	one.failing(v1alpha1.ReasonClusterClassNotFound, class.Name, "what runs already keeps running")
	two.failing(v1alpha1.ReasonClusterClassNotFound)
	if now := one.podUIDs(); !now.Equal(pods) {
		t.Errorf("the pods are %v, were %v", now, pods)
	}

	// when it is back
	generation := one.get().Generation
	s.shortLivedClass(class.Name, full, limit(2))

	// then
	one.ready()
	two.ready()
	if now := one.podUIDs(); !now.Equal(pods) || one.get().Generation != generation {
		t.Errorf("the pods are %v, were %v, and the generation is %d, was %d", now, pods, one.get().Generation, generation)
	}
	if now := one.applied(); pretty(normal(now)) != pretty(normal(children)) {
		t.Errorf("the children have changed:\n was %s\n  is %s", pretty(children), pretty(now))
	}

	// when a Workspace without a class is deleted
	takeAway()
	one.failing(v1alpha1.ReasonClusterClassNotFound)
	one.delete(metav1.DeletePropagationBackground)

	// then
	one.childrenGo()
	if have := len(two.pods()); have != 2 {
		t.Errorf("%d pods of the other one run, want 2", have)
	}
}

// lowest is the smallest count of replicas that a Deployment has been asked for, and had, since it was watched.
type lowest struct {
	mu               sync.Mutex
	asked, available int32
	version          string // that the watch has come to
	history          []string
}

func (l *lowest) saw(event watch.EventType, d *appsv1.Deployment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version = d.ResourceVersion
	l.asked, l.available = min(l.asked, ptr.Deref(d.Spec.Replicas, 1)), min(l.available, d.Status.AvailableReplicas)
	now := fmt.Sprintf("%s: %d asked for, %d available", event, ptr.Deref(d.Spec.Replicas, 1), d.Status.AvailableReplicas)
	if len(l.history) == 0 || l.history[len(l.history)-1] != now {
		l.history = append(l.history, now)
	}
}

func (l *lowest) seen() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.version
}

// atLeast returns an error if there were ever fewer replicas.
func (l *lowest) atLeast(floor int32) error {
	if l.asked < floor || l.available < floor {
		return fmt.Errorf("there were %d replicas asked for and %d available, want never fewer than %d:\n%s",
			l.asked, l.available, floor, strings.Join(l.history, "\n"))
	}
	return nil
}

// watched watches the Deployment until the returned function is called.
func (w *tenant) watched() (stop func() *lowest) {
	w.Helper()
	d := w.deployment()
	watcher, err := w.kube.AppsV1().Deployments(w.namespace).Watch(w.Context(), metav1.ListOptions{
		ResourceVersion: d.ResourceVersion, FieldSelector: fields.OneTermEqualSelector("metadata.name", names.Deployment(w.name)).String(),
	})
	w.must("watch the Deployment", err)
	low, done := &lowest{asked: ptr.Deref(d.Spec.Replicas, 1), available: d.Status.AvailableReplicas, version: d.ResourceVersion}, make(chan struct{})
	go func() {
		defer close(done)
		for event := range watcher.ResultChan() {
			if d, ok := event.Object.(*appsv1.Deployment); ok {
				low.saw(event.Type, d)
			}
		}
	}()
	return func() *lowest {
		w.Helper()
		w.eventually("the watch has come to the present", func() error {
			if now, seen := w.deployment().ResourceVersion, low.seen(); now != seen {
				return fmt.Errorf("the Deployment has version %s and the watch %s", now, seen)
			}
			return nil
		})
		watcher.Stop()
		<-done
		return low
	}
}

// Whatever changes in the class of a running Workspace reaches it, without fewer replicas on the way than before or after.
func TestClassChangesReachRunningWorkspaces(t *testing.T) {
	t.Parallel()
	autoScaling := func(c *v1alpha1.ClusterClass) { c.Spec.Features = []string{v1alpha1.FeatureAutoScaling} }
	minimum := func(n int32) func(*v1alpha1.ClusterClass) {
		return func(c *v1alpha1.ClusterClass) { c.Spec.Scaling.MinReplicas = n }
	}
	nothing := func(*v1alpha1.ClusterClass) {}
	for name, row := range map[string]struct {
		from  func(*v1alpha1.ClusterClass)
		patch string
		want  int32 // replicas afterwards
		rolls bool
	}{
		"auto-scaling is turned on":                {minimum(2), `{"features":["auto-scaling"]}`, 2, false},
		"auto-scaling is turned off":               {full, `{"features":[]}`, 2, false},
		"auto-scaling comes with a higher minimum": {minimum(1), `{"features":["auto-scaling"],"scaling":{"minReplicas":3}}`, 3, false},
		"auto-scaling goes with a lower minimum":   {full, `{"features":null,"scaling":{"minReplicas":1}}`, 1, false},
		"the minimum is raised":                    {minimum(1), `{"scaling":{"minReplicas":3}}`, 3, false},
		"the minimum is lowered":                   {minimum(3), `{"scaling":{"minReplicas":1}}`, 1, false},
		"the autoscaler's minimum is raised":       {autoScaling, `{"scaling":{"minReplicas":3}}`, 3, false},
		"the autoscaler's maximum is lowered":      {full, `{"scaling":{"maxReplicas":2}}`, 2, false},
		"the node type is set":                     {full, `{"nodeType":"dedicated"}`, 2, true},
		"the image is another":                     {minimum(2), `{"resourceImage":"example.com/app:2"}`, 2, true},
		"replicas must be spread":                  {minimum(2), `{"scaling":{"spread":"Required"}}`, 2, true},
		"zones are to be used":                     {minimum(2), `{"availability":"multi-az"}`, 2, true},
		"only the configuration is another":        {minimum(2), `{"sla":"99.99","storage":"nvme-ssd","features":["ddos-protection"]}`, 2, false},
		"a price":                                  {nothing, `{"pricing":{"currency":"IDR","perWorkspace":1}}`, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := given(t)
			class := s.class(row.from)
			shop := s.workspace("shop", class).ready()
			before := shop.deployment()
			start, stop := s.now(), shop.watched()

			// when
			s.patchClass(class, `{"spec":`+row.patch+`}`)

			// then
			shop.arrived(row.want)
			if err := stop().atLeast(min(*before.Spec.Replicas, row.want)); err != nil {
				t.Error(err)
			}
			revisions := 1
			if row.rolls {
				revisions = 2
			}
			if have := len(shop.replicaSets()); have != revisions || shop.deployment().UID != before.UID {
				t.Errorf("there were %d revisions, want %d", have, revisions)
			}
			if writes := s.sent(start, about("deployments"), wrote); len(writes) > 3 {
				t.Errorf("%d writes of the Deployment:%s", len(writes), list(writes))
			}
		})
	}
}

// arrived waits until the Workspace is as its class wants it: just those children, just as rendered, with that many replicas.
func (w *tenant) arrived(replicas int32) {
	w.Helper()
	w.eventually(fmt.Sprintf("%s is as its class wants it, with %d replicas", w.name, replicas), func() error {
		d := w.deployment()
		if *d.Spec.Replicas != replicas {
			return fmt.Errorf("%d replicas are asked for", *d.Spec.Replicas)
		}
		if err := errors.Join(rolledOutNow(d), readyNow(w.get())); err != nil {
			return err
		}
		return w.sameButReplicas() // last, because it runs a command
	})
}

// sameButReplicas is asRendered, save for the replica count: while there is an autoscaler, it is not ours, or a hand-over.
func (w *tenant) sameButReplicas() error {
	w.Helper()
	want, have := w.rendered(), w.applied()
	if want["HorizontalPodAutoscaler"] != nil {
		for _, all := range []map[string]map[string]any{want, have} {
			if spec, ok := all["Deployment"]["spec"].(map[string]any); ok {
				delete(spec, "replicas")
			}
		}
	}
	return sameChildren(want, have)
}

// What an autoscaler, or a person, has scaled up stays when auto-scaling goes, until it is handed over; what is asked for never drops below
// the class minimum.
func TestAScaledWorkspaceIsHandedOver(t *testing.T) {
	t.Parallel()
	s := given(t)
	class := s.class(func(c *v1alpha1.ClusterClass) {
		full(c)
		c.Spec.Scaling.MaxReplicas = ptr.To[int32](10)
	})
	shop := s.workspace("shop", class).ready()
	s.kubectl("scale", "deployment/"+names.Deployment("shop"), "--replicas=5")
	s.eventually("five replicas are available", func() error {
		if d := shop.deployment(); d.Status.AvailableReplicas != 5 {
			return fmt.Errorf("%d are", d.Status.AvailableReplicas)
		}
		return nil
	})
	stop := shop.watched()

	// when everything else changes
	s.patchClass(class, `{"spec":{"sla":"99.9","resourceImage":"example.com/app:2","scaling":{"minReplicas":3}}}`)
	shop.arrived(5)
	s.kubectl("annotate", "workspace", "shop", "formspec.dev/artifact-binary-hash=abc")
	shop.eventually("the hash is rolled out", func() error {
		if d := shop.deployment(); d.Spec.Template.Annotations[v1alpha1.AnnotationArtifactHash] != "abc" {
			return errors.New("the template has no hash")
		}
		return rolledOutNow(shop.deployment())
	})

	// then
	if err := stop().atLeast(5); err != nil {
		t.Error(err)
	}

	// when auto-scaling goes, the class decides again
	stop = shop.watched()
	s.patchClass(class, `{"spec":{"features":[]}}`)
	shop.arrived(3)
	if err := stop().atLeast(3); err != nil {
		t.Error(err)
	}
}

// A node type that no node has leaves the old pods running until it is corrected.
func TestANodeTypeThatNoNodeHas(t *testing.T) {
	t.Parallel()
	s := given(t)
	class := s.class(full, func(c *v1alpha1.ClusterClass) { c.Spec.NodeType = v1alpha1.NodeTypeDedicated })
	shop := s.workspace("shop", class).ready()
	stop, pods := shop.watched(), shop.podUIDs()
	s.patchClass(class, `{"spec":{"nodeType":"dev"}}`)
	shop.failing(v1alpha1.ReasonUnschedulable, "formspec.dev/tier=dev")
	s.patchClass(class, `{"spec":{"nodeType":"dedicated"}}`)
	shop.arrived(2)
	if err := stop().atLeast(2); err != nil {
		t.Error(err)
	}
	if now := shop.podUIDs(); !now.Equal(pods) {
		t.Errorf("the pods are %v, were %v", now, pods)
	}
}

// A Workspace that moves to another class becomes what that class wants, without a dip and with nothing left of the old one.
func TestAWorkspaceThatMoves(t *testing.T) {
	t.Parallel()
	s := given(t)
	plain := s.class(func(c *v1alpha1.ClusterClass) { c.Spec.Scaling.MinReplicas = 2 })
	scaled := s.class(full, func(c *v1alpha1.ClusterClass) { c.Spec.Scaling.MinReplicas = 3 })
	small := s.class(func(c *v1alpha1.ClusterClass) { c.Spec.Scaling.ScaleToZero = true })
	shop := s.workspace("shop", plain).ready()
	replicas := int32(2)
	for _, to := range []struct {
		class    *v1alpha1.ClusterClass
		replicas int32
	}{{scaled, 3}, {small, 1}, {plain, 2}, {small, 1}, {scaled, 3}, {plain, 2}} {
		stop := shop.watched()
		shop.patch(fmt.Sprintf(`{"spec":{"clusterClass":%q}}`, to.class.Name))
		shop.arrived(to.replicas)
		if err := stop().atLeast(min(replicas, to.replicas)); err != nil {
			t.Errorf("on the way from %d to %d replicas: %v", replicas, to.replicas, err)
		}
		replicas = to.replicas
	}
}
