// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterclass

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/admission"
	"github.com/formspec/formspec-operator/pkg/controllers/worker"
	formspecfake "github.com/formspec/formspec-operator/pkg/generated/clientset/versioned/fake"
	formspecinformers "github.com/formspec/formspec-operator/pkg/generated/informers/externalversions"
)

// start is when every test begins.
var start = time.Date(2026, 7, 10, 10, 0, 0, 0, time.UTC)

// key of the class of every test.
var key = cache.NewObjectName("", "std")

// fixture is a controller whose caches the test fills, over a server that answers as the API server does and stores nothing.
type fixture struct {
	*testing.T
	*Controller
	client   *formspecfake.Clientset
	recorder *events.FakeRecorder
	classes  cache.Indexer
	scopes   []cache.Indexer // Workspaces
	cached   *v1alpha1.ClusterClass
	fail     map[string]error // what a request answers, by how it is told
	vanish   bool             // the object is gone once nothing holds it
	sent     []string
	status   *v1alpha1.ClusterClassStatus // as last written
}

// given is a controller with a class in its cache, and Workspaces of that class by namespace/name, in one scope each.
func given(t *testing.T, class *v1alpha1.ClusterClass, workspaces ...string) *fixture {
	t.Helper()
	f := &fixture{
		T: t, client: formspecfake.NewClientset(), recorder: events.NewFakeRecorder(100),
		cached: class, fail: map[string]error{},
	}
	f.client.PrependReactor("*", "clusterclasses", f.answer)
	config := Config{
		FormSpec: f.client, Ledger: admission.NewLedger(), Recorder: f.recorder, Clock: clock.RealClock{},
		ClusterClasses: formspecinformers.NewSharedInformerFactory(f.client, 0).Formspec().V1alpha1().ClusterClasses(),
	}
	for range max(1, len(workspaces)) {
		scope := formspecinformers.NewSharedInformerFactory(f.client, 0).Formspec().V1alpha1().Workspaces()
		config.Workspaces = append(config.Workspaces, scope)
		f.scopes = append(f.scopes, scope.Informer().GetIndexer())
	}
	c, err := New(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.queue.ShutDown)
	f.Controller, f.classes = c, config.ClusterClasses.Informer().GetIndexer()
	if class != nil {
		f.must(f.classes.Add(class))
	}
	for i, name := range workspaces {
		f.must(f.scopes[i].Add(workspace(name)))
	}
	return f
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func std(change ...func(*v1alpha1.ClusterClass)) *v1alpha1.ClusterClass {
	class := &v1alpha1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Name: "std", UID: "uid", Generation: 1, ResourceVersion: "7"}}
	for _, f := range change {
		f(class)
	}
	return class
}

func held(class *v1alpha1.ClusterClass) { class.Finalizers = []string{v1alpha1.ClusterClassFinalizer} }

func deleted(class *v1alpha1.ClusterClass) { class.DeletionTimestamp = new(metav1.NewTime(start)) }

func workspace(name string) *v1alpha1.Workspace {
	namespace, name, _ := strings.Cut(name, "/")
	return &v1alpha1.Workspace{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid of " + name)},
		Spec:       v1alpha1.WorkspaceSpec{ClusterClass: "std"},
	}
}

// answer writes the request down and answers as the API server would.
func (f *fixture) answer(action clienttesting.Action) (bool, runtime.Object, error) {
	class := f.cached.DeepCopy()
	class.ResourceVersion = strconv.Itoa(100 + len(f.sent))
	switch a := action.(type) {
	case clienttesting.PatchActionImpl:
		var sent metav1.PartialObjectMetadata
		f.must(json.Unmarshal(a.Patch, &sent))
		adds := a.PatchType == types.ApplyPatchType && sent.UID == "uid" && len(sent.Finalizers) == 1
		removes := a.PatchType == types.MergePatchType && sent.ResourceVersion == f.cached.ResourceVersion && len(sent.Finalizers) == 0
		if a.PatchOptions.FieldManager != Name || (!adds && !removes) || len(sent.Labels)+len(sent.Annotations) > 0 {
			f.Errorf("the write of the finalizer is %s by %q: %s", a.PatchType, a.PatchOptions.FieldManager, a.Patch)
		}
		f.sent = append(f.sent, fmt.Sprintf("patch finalizers %q", sent.Finalizers))
		class.Finalizers = sent.Finalizers
		if !f.vanish && class.DeletionTimestamp != nil && len(class.Finalizers) == 0 {
			class.Finalizers = []string{"example.com/other"}
		}
	case clienttesting.UpdateActionImpl:
		update := a.Object.(*v1alpha1.ClusterClass)
		f.sent = append(f.sent, fmt.Sprintf("update %s at %s", a.Subresource, update.ResourceVersion))
		f.status, class.Status = &update.Status, update.Status
	default:
		f.Errorf("unexpected request: %v", action)
	}
	verb, _, _ := strings.Cut(f.sent[len(f.sent)-1], " ")
	return true, class, f.fail[verb]
}

// syncs runs one sync, in which nothing in the caches may change, and compares what was sent.
func (f *fixture) syncs(want ...string) {
	f.Helper()
	before := f.cached.DeepCopy()
	f.sent = nil
	after, err := f.sync(f.Context(), key)
	f.must(err)
	if after != 0 {
		f.Errorf("it looks again after %s without any event", after)
	}
	if !slices.Equal(f.sent, want) {
		f.Errorf("requests\n got %q\nwant %q", f.sent, want)
	}
	if !equality.Semantic.DeepEqual(before, f.cached) {
		f.Errorf("the sync changed the cached class:\n was %+v\n  is %+v", before, f.cached)
	}
}

func (f *fixture) events() []string {
	var all []string
	for len(f.recorder.Events) > 0 {
		all = append(all, <-f.recorder.Events)
	}
	return all
}

// woken are the keys in the queue that are due by now.
func (f *fixture) woken() []string {
	var keys []string
	for f.queue.Len() > 0 {
		key, _ := f.queue.Get()
		f.queue.Done(key)
		keys = append(keys, key.Name)
	}
	return keys
}

func TestSync(t *testing.T) {
	const add, remove = `patch finalizers ["formspec.dev/in-use"]`, `patch finalizers []`
	for name, row := range map[string]struct {
		class      *v1alpha1.ClusterClass
		workspaces []string
		vanish     bool
		want       []string
		ready      string
	}{
		"nobody uses it":                    {std(), nil, false, []string{"update status at 7"}, "Accepted"},
		"somebody uses it":                  {std(), []string{"a/a"}, false, []string{add, "update status at 100"}, "Accepted"},
		"it is used and held":               {std(held), []string{"a/a"}, false, []string{"update status at 7"}, "Accepted"},
		"the last one has gone":             {std(held), nil, false, []string{remove, "update status at 100"}, "Accepted"},
		"deleted while it is used":          {std(held, deleted), []string{"a/a"}, false, []string{"update status at 7"}, "Terminating"},
		"deleted, and nobody uses it":       {std(held, deleted), nil, true, []string{remove}, ""},
		"deleted, and others hold it still": {std(held, deleted), nil, false, []string{remove, "update status at 100"}, "Terminating"},
	} {
		t.Run(name, func(t *testing.T) {
			f := given(t, row.class, row.workspaces...)
			f.vanish = row.vanish
			f.syncs(row.want...)
			if row.ready == "" {
				return
			}
			if c := meta.FindStatusCondition(f.status.Conditions, v1alpha1.ConditionReady); c == nil || c.Reason != row.ready {
				t.Errorf("Ready is %+v, want %s", c, row.ready)
			}
			if int(f.status.Workspaces) != len(row.workspaces) {
				t.Errorf("%d workspaces, want %d", f.status.Workspaces, len(row.workspaces))
			}
		})
	}
}

func TestTheSteadyStateIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := given(t, std(held), "a/a", "b/b")
		f.store = store("999")
		f.syncs("update status at 7")
		f.cached = std(held)
		f.cached.Status = *f.status.DeepCopy()
		f.must(f.classes.Update(f.cached))
		<-time.After(time.Hour)
		f.syncs()
	})
}

func TestAClassThatIsGone(t *testing.T) {
	f := given(t, nil)
	if _, err := f.sync(t.Context(), key); err != nil || len(f.sent) > 0 {
		t.Errorf("error %v and requests %q, want none", err, f.sent)
	}
}

func TestWorkspacesOfAllScopesCount(t *testing.T) {
	f := given(t, std(held), "b/b", "a/a")
	f.syncs("update status at 7")
	in, err := f.gather(key)
	f.must(err)
	if !slices.Equal(in.Workspaces, []string{"a/a", "b/b"}) {
		t.Errorf("used by %q, want a/a and b/b", in.Workspaces)
	}
}

func TestTheStatusCountsSlots(t *testing.T) {
	f := given(t, std(held), "a/a", "b/b")
	f.ledger.Enter(workspace("a/a"), std())
	f.syncs("update status at 7")
	if f.status.Admitted != 1 || f.status.Workspaces != 2 {
		t.Errorf("%d admitted of %d, want 1 of 2", f.status.Admitted, f.status.Workspaces)
	}
}

// store says how far a cache has come.
type store string

func (s store) LastStoreSyncResourceVersion() string { return string(s) }

func TestASyncWaitsUntilTheCacheHasSeenTheLastOne(t *testing.T) {
	f := given(t, std(), "a/a")
	f.store = store("99")
	f.syncs(`patch finalizers ["formspec.dev/in-use"]`, "update status at 100")
	f.sent = nil
	if _, err := f.sync(t.Context(), key); !errors.Is(err, worker.ErrStale) || len(f.sent) > 0 {
		t.Errorf("error %v and requests %q, want a stale cache and none", err, f.sent)
	}
}

func TestFailures(t *testing.T) {
	notFound := apierrors.NewNotFound(v1alpha1.Resource("clusterclasses"), "std")
	conflict := apierrors.NewConflict(v1alpha1.Resource("clusterclasses"), "std", errors.New("another version"))
	broken := errors.New("no answer")
	for name, row := range map[string]struct {
		class      *v1alpha1.ClusterClass
		workspaces []string
		fail       map[string]error
		want       error
		sent       int
	}{
		"the finalizer cannot be added":              {std(), []string{"a/a"}, map[string]error{"patch": broken}, broken, 1},
		"the finalizer cannot be removed":            {std(held), nil, map[string]error{"patch": broken}, broken, 1},
		"the class went before its finalizer":        {std(held, deleted), nil, map[string]error{"patch": notFound}, nil, 1},
		"another class of that name came":            {std(held, deleted), nil, map[string]error{"patch": conflict}, conflict, 1},
		"the status cannot be written":               {std(), nil, map[string]error{"update": broken}, broken, 1},
		"the status was written by somebody else":    {std(), nil, map[string]error{"update": conflict}, conflict, 1},
		"the class went before its status":           {std(), nil, map[string]error{"update": notFound}, nil, 1},
		"the status fails after the finalizer is on": {std(), []string{"a/a"}, map[string]error{"update": broken}, broken, 2},
	} {
		t.Run(name, func(t *testing.T) {
			f := given(t, row.class, row.workspaces...)
			f.fail = row.fail
			_, err := f.sync(t.Context(), key)
			if !errors.Is(err, row.want) || len(f.sent) != row.sent {
				t.Errorf("error %v after %q, want %v after %d requests", err, f.sent, row.want, row.sent)
			}
			if err != nil && !strings.Contains(err.Error(), `ClusterClass "std"`) {
				t.Errorf("the error does not name the class: %v", err)
			}
			if told := f.events(); len(told) > 0 {
				t.Errorf("events %q about a status that nobody has", told)
			}
		})
	}
}

func TestEvents(t *testing.T) {
	f := given(t, std(func(c *v1alpha1.ClusterClass) { c.Spec.NodeType = "huge" }))
	f.syncs("update status at 7")
	if told := f.events(); len(told) != 1 || !strings.HasPrefix(told[0], "Warning InvalidSpec ") {
		t.Errorf("events %q, want one InvalidSpec", told)
	}
}

func TestAPanicIsShown(t *testing.T) {
	f := given(t, std())
	f.crashed(t.Context(), key)
	if c := meta.FindStatusCondition(f.status.Conditions, v1alpha1.ConditionReady); c == nil || c.Reason != v1alpha1.ReasonInternalError {
		t.Errorf("Ready is %+v, want InternalError", c)
	}
	f.crashed(t.Context(), cache.NewObjectName("", "another")) // is no more
}
