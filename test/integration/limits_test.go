// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

func limit(n int32) func(*v1alpha1.ClusterClass) {
	return func(class *v1alpha1.ClusterClass) { class.Spec.MaxWorkspaces = n }
}

// crowd are Workspaces of one class in several namespaces.
type crowd struct {
	*scenario
	class      *v1alpha1.ClusterClass
	namespaces []*scenario
	tenants    map[string]*tenant // by namespace/name
	census     *census
}

// crowded creates as many Workspaces in each of the namespaces, all at once, with one client a namespace.
func crowded(class *v1alpha1.ClusterClass, each int, namespaces ...*scenario) *crowd {
	c := &crowd{scenario: namespaces[0], class: class, namespaces: namespaces, tenants: map[string]*tenant{}}
	c.Helper()
	c.census = c.count(class)
	c.rush(each)
	return c
}

// rush creates the Workspaces.
func (c *crowd) rush(each int) {
	c.Helper()
	var wg sync.WaitGroup
	errs := make(chan error, each*len(c.namespaces))
	for _, s := range c.namespaces {
		for i := range each {
			w := &tenant{scenario: s, name: fmt.Sprintf("w%02d", i)}
			c.tenants[w.key()] = w
		}
		wg.Go(func() {
			for i := range each {
				ws := &v1alpha1.Workspace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("w%02d", i)}, Spec: v1alpha1.WorkspaceSpec{ClusterClass: c.class.Name}}
				_, err := s.formspec.FormspecV1alpha1().Workspaces(s.namespace).Create(s.Context(), ws, metav1.CreateOptions{})
				errs <- err
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		c.must("create a Workspace", err)
	}
}

func (w *tenant) key() string { return w.namespace + "/" + w.name }

// all reads the Workspaces of the class, the oldest first.
func (c *crowd) all() []v1alpha1.Workspace {
	c.Helper()
	var all []v1alpha1.Workspace
	for _, s := range c.namespaces {
		list, err := s.formspec.FormspecV1alpha1().Workspaces(s.namespace).List(s.Context(), metav1.ListOptions{})
		c.must("list the Workspaces", err)
		all = append(all, slices.DeleteFunc(list.Items, func(ws v1alpha1.Workspace) bool {
			return ws.Spec.ClusterClass != c.class.Name && ws.Status.AdmittedClass != c.class.Name
		})...)
	}
	slices.SortFunc(all, func(a, b v1alpha1.Workspace) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return all
}

// settled waits until as many Workspaces of the class run as should, and each other one says that the class is full. It returns both, the
// oldest first.
func (c *crowd) settled(running int) (admitted, waiting []*tenant) {
	c.Helper()
	c.eventually(fmt.Sprintf("%d Workspaces run and the others wait", running), func() error {
		admitted, waiting = nil, nil
		for _, ws := range c.all() {
			w := c.tenants[ws.Namespace+"/"+ws.Name]
			if ws.Status.AdmittedClass == c.class.Name {
				if err := readyNow(&ws); err != nil && ws.Spec.ClusterClass == c.class.Name {
					return err
				}
				admitted = append(admitted, w)
				continue
			}
			if err := failingNow(&ws, v1alpha1.ReasonClassFull); err != nil {
				return err
			}
			if err := condition(&ws, v1alpha1.ConditionAdmitted, metav1.ConditionFalse, v1alpha1.ReasonClassFull); err != nil {
				return err
			}
			waiting = append(waiting, w)
		}
		if len(admitted) != running {
			return fmt.Errorf("%d are admitted", len(admitted))
		}
		return nil
	})
	return admitted, waiting
}

// childless returns an error if any of the Workspaces has a child of these kinds.
func (c *crowd) childless(tenants []*tenant, kinds ...childKind) error {
	c.Helper()
	forbidden := map[string]string{}
	for _, w := range tenants {
		for _, k := range kinds {
			forbidden[w.namespace+"/"+k.kind+"/"+k.name(w.name)] = w.name
		}
	}
	var errs []error
	for _, s := range c.namespaces {
		for _, k := range kinds {
			list, err := k.of(s).List(s.Context(), metav1.ListOptions{})
			s.must("list", err)
			for _, child := range list.Items {
				if w := forbidden[s.namespace+"/"+k.kind+"/"+child.GetName()]; w != "" {
					errs = append(errs, fmt.Errorf("%s waits and has a %s", w, k.kind))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// census counts the Deployments that take up a slot of a class, at each instant and in the order of the API server.
type census struct {
	class string
	mu    sync.Mutex
	there map[types.UID]string // the Workspace
	most  int
	log   []string
}

func (s *scenario) count(class *v1alpha1.ClusterClass) *census {
	s.Helper()
	c := &census{class: class.Name, there: map[types.UID]string{}}
	list, err := s.kube.AppsV1().Deployments("").List(s.Context(), metav1.ListOptions{Limit: 1})
	s.must("list the Deployments", err)
	watcher, err := s.kube.AppsV1().Deployments("").Watch(s.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	s.must("watch the Deployments", err)
	s.Cleanup(watcher.Stop)
	go func() {
		for event := range watcher.ResultChan() {
			if d, ok := event.Object.(*appsv1.Deployment); ok {
				c.saw(event.Type, d)
			}
		}
	}()
	return c
}

func (c *census) saw(event watch.EventType, d *appsv1.Deployment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := len(c.there)
	if event != watch.Deleted && d.Annotations[v1alpha1.AnnotationClusterClass] == c.class {
		c.there[d.UID] = d.Namespace + "/" + metav1.GetControllerOf(d).Name
	} else {
		delete(c.there, d.UID)
	}
	if len(c.there) != was {
		c.most = max(c.most, len(c.there))
		c.log = append(c.log, fmt.Sprintf("%s %s/%s: %d", event, d.Namespace, d.Name, len(c.there)))
	}
}

// names are the Workspaces whose Deployments there are, as namespace/name.
func (c *census) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Values(c.there))
}

// now is how many there are.
func (c *census) now() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.there)
}

// peaked returns an error unless just n were the most that there have ever been.
func (c *census) peaked(n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.most != n {
		return fmt.Errorf("there were up to %d Deployments at once, want %d:\n%s", c.most, n, strings.Join(c.log, "\n"))
	}
	return nil
}

// auditNever returns an error if the audit log shows that a Deployment was created while as many as the limit existed.
func (c *crowd) auditNever(since mark, limit int) error {
	mine := sets.New[string]()
	for _, s := range c.namespaces {
		mine.Insert(s.namespace)
	}
	var found []request
	err := c.audit.scan(since.before, -1, `"deployments"`, func(_ int64, r request) {
		created := r.Response.Code == 201 && (r.Verb == "patch" || r.Verb == "create")
		deleted := r.Response.Code == 200 && r.Verb == "delete"
		if r.resource() == "deployments" && mine.Has(r.Object.Namespace) && (created || deleted) {
			found = append(found, r)
		}
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(found, func(a, b request) int { return a.Received.Compare(b.Received) })
	there, created := 0, 0
	for _, r := range found {
		if r.Response.Code == 200 {
			there--
			continue
		}
		created++
		if there++; there > limit {
			return fmt.Errorf("the audit log shows %d Deployments at once:%s", there, list(found))
		}
	}
	if created < limit {
		return fmt.Errorf("the audit log shows %d creations only:%s", created, list(found))
	}
	return nil
}

// countedAs waits until the class says how many name it, and how many of them it has admitted.
func (c *crowd) countedAs(workspaces, admitted int32) {
	c.Helper()
	c.eventually("the class counts", func() error {
		class, err := c.formspec.FormspecV1alpha1().ClusterClasses().Get(c.Context(), c.class.Name, metav1.GetOptions{})
		if err == nil && (class.Status.Workspaces != workspaces || class.Status.Admitted != admitted) {
			err = fmt.Errorf("it says %d workspaces and %d admitted, want %d and %d", class.Status.Workspaces, class.Status.Admitted, workspaces, admitted)
		}
		return err
	})
}

// deployments are the UIDs and generations of the Workspaces' Deployments.
func deployments(tenants []*tenant) map[string]string {
	all := map[string]string{}
	for _, w := range tenants {
		d := w.deployment()
		all[w.key()] = fmt.Sprintf("%s in generation %d", d.UID, d.Generation)
	}
	return all
}

func keys(tenants []*tenant) []string {
	var all []string
	for _, w := range tenants {
		all = append(all, w.key())
	}
	return all
}

// However many ask at once, no more run than the class admits, and whoever is next is next. FR-48.
func TestMaxWorkspaces(t *testing.T) {
	t.Parallel()
	s := given(t)
	start := s.now()
	class := s.class(limit(3))
	c := crowded(class, 10, s, given(t), given(t), given(t))
	admitted, waiting := c.settled(3)
	if err := c.childless(waiting, childKinds...); err != nil {
		t.Error(err)
	}
	c.countedAs(40, 3)

	// when one goes, the one that was created next comes
	admitted[0].delete(metav1.DeletePropagationBackground)
	next := waiting[0]
	admitted, waiting = c.settled(3)
	if !slices.Contains(admitted, next) {
		t.Errorf("%s is not admitted, though it was next; %q are", next.key(), keys(admitted))
	}
	c.countedAs(39, 3)
	if err := c.auditNever(start, 3); err != nil {
		t.Error(err)
	}

	// when one moves to a class that is full, it keeps its slot and runs on
	other := given(t)
	full := other.class(limit(1))
	owner := other.workspace("owner", full).ready()
	mover, before := admitted[1], deployments(admitted[1:2])
	mover.patch(fmt.Sprintf(`{"spec":{"clusterClass":%q}}`, full.Name))
	mover.failing(v1alpha1.ReasonClassFull, full.Name)
	next = waiting[0]
	s.lasts(2*time.Second, "it runs on the slot that it had", func() error {
		if now := deployments([]*tenant{mover}); !maps.Equal(now, before) || mover.get().Status.AdmittedClass != class.Name || mover.deployment().Status.AvailableReplicas != 1 {
			return fmt.Errorf("it holds a slot of %q, and its Deployment is %v, was %v", mover.get().Status.AdmittedClass, now, before)
		}
		return failingNow(next.get(), v1alpha1.ReasonClassFull)
	})

	// when there is room it moves, and its old slot is free
	owner.delete(metav1.DeletePropagationForeground)
	mover.ready()
	next.ready()
	if ws := mover.get(); ws.Status.AdmittedClass != full.Name {
		t.Errorf("it holds a slot of %q, want %q", ws.Status.AdmittedClass, full.Name)
	}
	mover.delete(metav1.DeletePropagationBackground)

	// when the limit is lowered, nobody stops, and nobody comes before enough have gone
	admitted, waiting = c.settled(3)
	before = deployments(admitted)
	s.patchClass(class, `{"spec":{"maxWorkspaces":1}}`)
	next = waiting[0]
	s.eventually("the lower limit is known", func() error { return failingNow(next.get(), v1alpha1.ReasonClassFull, "all 1 slots") })
	s.lasts(2*time.Second, "all three run", func() error {
		for _, w := range admitted {
			if err := readyNow(w.get()); err != nil {
				return err
			}
		}
		return nil
	})
	if now := deployments(admitted); !maps.Equal(now, before) {
		t.Errorf("Deployments %v run, want those from before: %v", now, before)
	}
	admitted[0].delete(metav1.DeletePropagationBackground)
	admitted[1].delete(metav1.DeletePropagationBackground)
	s.lasts(2*time.Second, "nobody is admitted while as many run as the class admits", func() error {
		return failingNow(next.get(), v1alpha1.ReasonClassFull)
	})
	admitted[2].delete(metav1.DeletePropagationBackground)
	next.ready()
	c.settled(1)

	// then
	if err := c.census.peaked(3); err != nil {
		t.Error(err)
	}
}

// Whoever could not run anyway holds nobody up, and has its place in the line once it could.
func TestTheLineOfAClass(t *testing.T) {
	t.Parallel()
	s := given(t)
	class := s.class(limit(1), func(class *v1alpha1.ClusterClass) { class.Spec.Region = "jakarta" })
	elsewhere := s.workspace("a", class, func(ws *v1alpha1.Workspace) { ws.Spec.Region = "surabaya" })
	elsewhere.failing(v1alpha1.ReasonRegionMismatch)

	// when
	b := s.workspace("b", class)

	// then
	b.ready()

	// when the oldest could run, it is before the younger one that waits, too
	c := s.workspace("c", class)
	c.failing(v1alpha1.ReasonClassFull)
	elsewhere.patch(`{"spec":{"region":"jakarta"}}`)
	elsewhere.failing(v1alpha1.ReasonClassFull)
	b.delete(metav1.DeletePropagationBackground)
	elsewhere.ready()
	if err := failingNow(c.get(), v1alpha1.ReasonClassFull); err != nil {
		t.Error(err)
	}
}

// The Workspaces may come before their class. Then, too, the oldest is admitted.
func TestAClassThatComesAfterItsWorkspaces(t *testing.T) {
	t.Parallel()
	s := given(t)
	class := &v1alpha1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}, Spec: v1alpha1.ClusterClassSpec{MaxWorkspaces: 1}}
	c := &crowd{scenario: s, class: class, namespaces: []*scenario{s}, tenants: map[string]*tenant{}}
	for i := range 20 {
		w := s.workspace(fmt.Sprintf("w%02d", i), class)
		c.tenants[w.key()] = w
	}
	for _, w := range c.tenants {
		w.failing(v1alpha1.ReasonClusterClassNotFound)
	}

	// when
	_, err := s.formspec.FormspecV1alpha1().ClusterClasses().Create(s.Context(), class, metav1.CreateOptions{})
	s.must("create the class", err)
	s.Cleanup(func() { s.deleteClass(class.Name) })

	// then
	admitted, _ := c.settled(1)
	if oldest := c.all()[0]; admitted[0].name != oldest.Name {
		t.Errorf("%s is admitted, want the oldest: %s", admitted[0].name, oldest.Name)
	}
}
