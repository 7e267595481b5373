// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	formspecfake "github.com/formspec/formspec-operator/pkg/generated/clientset/versioned/fake"
)

// server is both fake clientsets with the rules of the API server that they lack and a sync relies on: versions, UIDs, preconditions,
// the status subresource and finalizers. It tells the requests in their order.
type server struct {
	kube     *kubefake.Clientset
	formspec *formspecfake.Clientset

	mu       sync.Mutex // of what follows
	version  int
	requests []string
	failing  map[string]error // what a request answers, by how it is told
	refusing map[string]refusal
}

// newServer has these objects, which get UIDs and versions.
func newServer(objects ...runtime.Object) *server {
	s := &server{version: 100, failing: map[string]error{}, refusing: map[string]refusal{}}
	var builtIn, own []runtime.Object
	for _, object := range objects {
		m := object.(metav1.Object)
		if m.GetUID() == "" {
			m.SetUID(types.UID("uid-of-" + m.GetName()))
		}
		m.SetResourceVersion(s.next())
		switch object.(type) {
		case *v1alpha1.Workspace, *v1alpha1.ClusterClass:
			own = append(own, object)
		default:
			builtIn = append(builtIn, object)
		}
	}
	s.kube, s.formspec = kubefake.NewClientset(builtIn...), formspecfake.NewClientset(own...)
	s.kube.PrependReactor("*", "*", s.react(s.kube.Tracker()))
	s.formspec.PrependReactor("*", "*", s.react(s.formspec.Tracker()))
	return s
}

func (s *server) next() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	return strconv.Itoa(s.version)
}

// sent are the requests since the last time, other than lists and watches.
func (s *server) sent() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.requests
	s.requests = nil
	return all
}

// fail makes requests of a kind fail from now on; with nil they work again.
func (s *server) fail(request string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing[request] = err
}

// refusal is of requests of which the body has the text.
type refusal struct {
	text string
	err  error
}

// refuse makes requests of a kind fail that have the text.
func (s *server) refuse(request, text string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusing[request] = refusal{text, err}
}

// receive takes note of a request, and says whether it is to fail.
func (s *server) receive(request string, action clienttesting.Action) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, request)
	if patch, is := action.(clienttesting.PatchActionImpl); is {
		if r, found := s.refusing[request]; found && strings.Contains(string(patch.Patch), r.text) {
			return r.err
		}
	}
	return s.failing[request]
}

var kindOf = map[string]string{
	"workspaces": "Workspace", "clusterclasses": "ClusterClass", "deployments": "Deployment", "services": "Service", "configmaps": "ConfigMap",
	"secrets": "Secret", "poddisruptionbudgets": "PodDisruptionBudget", "horizontalpodautoscalers": "HorizontalPodAutoscaler", "pods": "Pod",
	"endpointslices": "EndpointSlice", "endpoints": "Endpoints", "leases": "Lease",
}

func (s *server) react(tracker clienttesting.ObjectTracker) clienttesting.ReactionFunc {
	return func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.Matches("list", action.GetResource().Resource) || action.Matches("watch", action.GetResource().Resource) {
			return false, nil, nil
		}
		kind := kindOf[action.GetResource().Resource]
		answer := func(verb string, act func() (runtime.Object, error)) (bool, runtime.Object, error) {
			if err := s.receive(verb+" "+kind, action); err != nil {
				return true, nil, err
			}
			object, err := act()
			return true, object, err
		}
		switch a := action.(type) {
		case clienttesting.PatchActionImpl:
			if a.GetPatchType() != types.ApplyPatchType {
				return answer("patch", func() (runtime.Object, error) { return s.apply(tracker, a, preconditions(a)) })
			}
			metadata := preconditions(a)
			if metadata.ResourceVersion == "1" {
				return answer("create", func() (runtime.Object, error) { return s.apply(tracker, a, metadata) })
			}
			return answer("apply", func() (runtime.Object, error) { return s.apply(tracker, a, metadata) })
		case clienttesting.UpdateActionImpl:
			return answer(strings.TrimPrefix("update "+a.GetSubresource(), "update "), func() (runtime.Object, error) { return s.updateStatus(tracker, a) })
		case clienttesting.DeleteActionImpl:
			return answer("delete", func() (runtime.Object, error) { return s.delete(tracker, a) })
		default:
			return answer(action.GetVerb(), func() (runtime.Object, error) {
				_, object, err := clienttesting.ObjectReaction(tracker)(action)
				return object, err
			})
		}
	}
}

func preconditions(a clienttesting.PatchActionImpl) metav1.ObjectMeta {
	var sent metav1.PartialObjectMetadata
	if err := json.Unmarshal(a.GetPatch(), &sent); err != nil {
		panic(err)
	}
	return sent.ObjectMeta
}

func live(tracker clienttesting.ObjectTracker, gvr schema.GroupVersionResource, namespace, name string) metav1.Object {
	object, err := tracker.Get(gvr, namespace, name)
	if err != nil {
		return nil
	}
	return object.(metav1.Object)
}

func conflict(gvr schema.GroupVersionResource, name, why string) error {
	return apierrors.NewConflict(gvr.GroupResource(), name, errors.New(why))
}

// apply, which a merge patch is as well here, checks the preconditions and gives the object its new version, and a new one a UID.
func (s *server) apply(tracker clienttesting.ObjectTracker, a clienttesting.PatchActionImpl, sent metav1.ObjectMeta) (runtime.Object, error) {
	before := live(tracker, a.GetResource(), a.GetNamespace(), a.GetName())
	switch {
	case before == nil && a.GetPatchType() != types.ApplyPatchType:
		return nil, apierrors.NewNotFound(a.GetResource().GroupResource(), a.GetName())
	case before == nil && sent.UID != "":
		return nil, conflict(a.GetResource(), a.GetName(), "there is no such object")
	case before != nil && sent.UID != "" && sent.UID != before.GetUID():
		return nil, conflict(a.GetResource(), a.GetName(), "another UID")
	case before != nil && sent.ResourceVersion != "" && sent.ResourceVersion != before.GetResourceVersion():
		return nil, conflict(a.GetResource(), a.GetName(), "another resourceVersion")
	}
	if before != nil && before.GetDeletionTimestamp() != nil && a.GetPatchType() != types.ApplyPatchType && len(sent.Finalizers) == 0 {
		before.SetFinalizers(nil) // its last: it goes at once
		return before.(runtime.Object), tracker.Delete(a.GetResource(), a.GetNamespace(), a.GetName())
	}
	uid := types.UID("uid-of-" + kindOf[a.GetResource().Resource])
	if before != nil {
		uid = before.GetUID()
	}
	a.Patch = withIdentity(a.Patch, uid, s.next())
	_, object, err := clienttesting.ObjectReaction(tracker)(a)
	return object, err
}

// withIdentity sets UID and version in a patch, which the fake clientset stores as they come.
func withIdentity(patch []byte, uid types.UID, version string) []byte {
	var object map[string]any
	if err := json.Unmarshal(patch, &object); err != nil {
		panic(err)
	}
	metadata := object["metadata"].(map[string]any)
	metadata["uid"], metadata["resourceVersion"] = uid, version
	out, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return out
}

// updateStatus writes the status only, and only over the version that it was read from.
func (s *server) updateStatus(tracker clienttesting.ObjectTracker, a clienttesting.UpdateActionImpl) (runtime.Object, error) {
	sent := a.GetObject().(*v1alpha1.Workspace)
	before, _ := live(tracker, a.GetResource(), a.GetNamespace(), sent.Name).(*v1alpha1.Workspace)
	switch {
	case before == nil:
		return nil, apierrors.NewNotFound(a.GetResource().GroupResource(), sent.Name)
	case sent.ResourceVersion == "":
		return nil, apierrors.NewBadRequest("metadata.resourceVersion must be specified for an update")
	case sent.ResourceVersion != before.ResourceVersion || sent.UID != before.UID:
		return nil, conflict(a.GetResource(), sent.Name, "another resourceVersion")
	}
	after := before.DeepCopy()
	after.Status, after.ResourceVersion = sent.Status, s.next()
	return after, tracker.Update(a.GetResource(), after, a.GetNamespace(), metav1.UpdateOptions{FieldManager: a.UpdateOptions.FieldManager})
}

func (s *server) delete(tracker clienttesting.ObjectTracker, a clienttesting.DeleteActionImpl) (runtime.Object, error) {
	before := live(tracker, a.GetResource(), a.GetNamespace(), a.GetName())
	if p := a.DeleteOptions.Preconditions; before != nil && p != nil && p.UID != nil && *p.UID != before.GetUID() {
		return nil, conflict(a.GetResource(), a.GetName(), "another UID")
	}
	return nil, tracker.Delete(a.GetResource(), a.GetNamespace(), a.GetName())
}

// change is what somebody else does to an object: it gets a new version, and a new generation if that is said.
func change[T runtime.Object](f *fixture, gvr schema.GroupVersionResource, name string, newGeneration bool, do func(T)) {
	f.t.Helper()
	tracker := f.kube.Tracker()
	if gvr.Group == v1alpha1.GroupName {
		tracker = f.server.formspec.Tracker()
	}
	namespace := "bank"
	if gvr.Resource == "clusterclasses" {
		namespace = ""
	}
	found, err := tracker.Get(gvr, namespace, name)
	if err != nil {
		f.t.Fatal(err)
	}
	object := found.DeepCopyObject().(T)
	do(object)
	m := any(object).(metav1.Object)
	if m.SetResourceVersion(f.next()); newGeneration {
		m.SetGeneration(m.GetGeneration() + 1)
	}
	if err := tracker.Update(gvr, object, namespace, metav1.UpdateOptions{FieldManager: "somebody"}); err != nil {
		f.t.Fatal(err)
	}
}
