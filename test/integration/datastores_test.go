// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

// endpointKey is the key of the scenarios' endpoint Secrets.
const endpointKey = "connection-string"

// secret creates a Secret.
func (s *scenario) secret(name string, data map[string]string) *corev1.Secret {
	s.Helper()
	secret, err := s.kube.CoreV1().Secrets(s.namespace).Create(s.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}, metav1.CreateOptions{})
	s.must("create the Secret", err)
	return secret
}

// readSecret returns a Secret, or nil if there is none.
func (s *scenario) readSecret(name string) *corev1.Secret {
	s.Helper()
	secret, err := s.kube.CoreV1().Secrets(s.namespace).Get(s.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	s.must("get the Secret", err)
	return secret
}

// store is one Datastore.
type store struct {
	*scenario
	name string
}

// newDatastore is a Datastore of an owner that anybody may claim, as it would be created. Its endpoint Secret has its name.
func (o *owner) newDatastore(name string, driver v1alpha1.Driver, change ...func(*v1alpha1.Datastore)) *v1alpha1.Datastore {
	ds := &v1alpha1.Datastore{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: o.namespace},
		Spec: v1alpha1.DatastoreSpec{
			Driver: driver, Owner: o.name, AllowedTenants: []string{"*"},
			EndpointSecretRef: v1alpha1.SecretKeyReference{Name: name, Key: endpointKey},
		},
	}
	for _, f := range change {
		f(ds)
	}
	return ds
}

// datastore creates a Datastore of an owner, and its endpoint Secret unless the connection string is empty.
func (o *owner) datastore(name string, driver v1alpha1.Driver, connection string, change ...func(*v1alpha1.Datastore)) *store {
	o.Helper()
	if connection != "" {
		o.secret(name, map[string]string{endpointKey: connection})
	}
	return o.register(o.newDatastore(name, driver, change...))
}

// register creates a Datastore as it is.
func (s *scenario) register(ds *v1alpha1.Datastore) *store {
	s.Helper()
	_, err := s.formspec.FormspecV1alpha1().Datastores(s.namespace).Create(s.Context(), ds, metav1.CreateOptions{})
	s.must("create the Datastore", err)
	return &store{scenario: s, name: ds.Name}
}

func (d *store) get() *v1alpha1.Datastore {
	d.Helper()
	ds, err := d.formspec.FormspecV1alpha1().Datastores(d.namespace).Get(d.Context(), d.name, metav1.GetOptions{})
	d.must("get the Datastore", err)
	return ds
}

func (d *store) patch(patch string) {
	d.Helper()
	_, err := d.formspec.FormspecV1alpha1().Datastores(d.namespace).
		Patch(d.Context(), d.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	d.must("patch the Datastore", err)
}

func (d *store) delete() {
	d.Helper()
	d.must("delete the Datastore", d.formspec.FormspecV1alpha1().Datastores(d.namespace).Delete(d.Context(), d.name, metav1.DeleteOptions{}))
}

// connect changes the connection string in the endpoint Secret.
func (d *store) connect(connection string) {
	d.Helper()
	patch, err := json.Marshal(map[string]any{"stringData": map[string]string{endpointKey: connection}})
	d.must("encode a patch", err)
	d.patchSecret(d.name, string(patch))
}

func (s *scenario) patchSecret(name, patch string) {
	s.Helper()
	_, err := s.kube.CoreV1().Secrets(s.namespace).Patch(s.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	s.must("patch the Secret", err)
}

// managed is the Secret with the credentials in force, or nil.
func (d *store) managed() *corev1.Secret {
	d.Helper()
	return d.readSecret(names.Datastore(d.name))
}

// ready waits until the Datastore is validated, and its credentials are in force.
func (d *store) ready() *store {
	d.Helper()
	d.eventually("Datastore "+d.name+" is Ready", d.readyNow)
	return d
}

func (d *store) readyNow() error {
	subject := datastoreSubject(d.get())
	if err := firstError(
		subject.has(v1alpha1.ConditionReady, metav1.ConditionTrue, ""),
		subject.has(v1alpha1.ConditionValidated, metav1.ConditionTrue, ""),
		subject.has(v1alpha1.ConditionDenied, metav1.ConditionFalse, ""),
	); err != nil {
		return err
	}
	if d.managed() == nil {
		return fmt.Errorf("%s has no managed Secret", d.name)
	}
	return nil
}

// failing waits until the Datastore is not Ready for a reason, with each of the texts in its message.
func (d *store) failing(reason string, texts ...string) {
	d.Helper()
	d.eventually("Datastore "+d.name+" says "+reason, func() error {
		return datastoreSubject(d.get()).has(v1alpha1.ConditionReady, metav1.ConditionFalse, reason, texts...)
	})
}

// lists makes a Workspace list a datastore.
func lists(name string, driver v1alpha1.Driver) func(*v1alpha1.Workspace) {
	return func(ws *v1alpha1.Workspace) {
		ws.Spec.Datastores = append(ws.Spec.Datastores, v1alpha1.DatastoreReference{Name: name, Type: string(driver)})
	}
}

// parts are the ends of a datastore's variables when its connection string has every part.
var parts = []string{"DATABASE", "DSN", "HOST", "PASSWORD", "PERMISSION", "PORT", "USER"}

// variables are the names of the variables that a datastore's name becomes, with those ends.
func variables(datastore string, ends ...string) []string {
	name := strings.Map(func(r rune) rune {
		if r == '-' || r == '.' {
			return '_'
		}
		return r
	}, strings.ToUpper(datastore))
	var found []string
	for _, end := range ends {
		found = append(found, "FORMSPEC_DATASTORE_"+name+"_"+end)
		if end == "DSN" {
			found = append(found, "FORMA_DATASTORE_"+name+"_DSN")
		}
	}
	slices.Sort(found)
	return found
}

// injected are the variables in the pod template that come from a datastore, each with its key in the credentials Secret. One that comes from
// elsewhere is an error.
func injected(d *appsv1.Deployment, workspace string) (map[string]string, error) {
	found := map[string]string{}
	for _, env := range d.Spec.Template.Spec.Containers[0].Env {
		if !strings.Contains(env.Name, "DATASTORE") {
			continue
		}
		if env.Value != "" || env.ValueFrom == nil || env.ValueFrom.SecretKeyRef == nil || env.ValueFrom.SecretKeyRef.Name != names.Credentials(workspace) {
			return nil, fmt.Errorf("%s does not refer to the credentials Secret: %v", env.Name, env)
		}
		found[env.Name] = env.ValueFrom.SecretKeyRef.Key
	}
	return found, nil
}

// environmentOf is what containers of the Workspace get to see of datastores: the variables with their values.
func (w *tenant) environmentOf() (map[string]string, error) {
	w.Helper()
	deployment, err := w.kube.AppsV1().Deployments(w.namespace).Get(w.Context(), names.Deployment(w.name), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	refs, err := injected(deployment, w.name)
	if err != nil {
		return nil, err
	}
	secret := w.readSecret(names.Credentials(w.name))
	if secret == nil {
		return nil, fmt.Errorf("%s has no credentials Secret", w.name)
	}
	values := map[string]string{}
	for name, key := range refs {
		value, found := secret.Data[key]
		if !found {
			return nil, fmt.Errorf("%s refers to the key %s, which the credentials Secret lacks", name, key)
		}
		values[name] = string(value)
	}
	return values, nil
}

// injectedNow returns an error unless the Workspace's variables from datastores are exactly those, and its Secret has exactly what they
// need.
func (w *tenant) injectedNow(want ...string) error {
	values, err := w.environmentOf()
	if err != nil {
		return err
	}
	slices.Sort(want)
	if have := slices.Sorted(maps.Keys(values)); !slices.Equal(have, want) {
		return fmt.Errorf("the variables from datastores are %q, want %q", have, want)
	}
	keys := slices.DeleteFunc(slices.Clone(want), func(name string) bool { return strings.HasPrefix(name, "FORMA_") })
	if have := slices.Sorted(maps.Keys(w.readSecret(names.Credentials(w.name)).Data)); !slices.Equal(have, keys) {
		return fmt.Errorf("the keys of the credentials Secret are %q, want %q", have, keys)
	}
	return nil
}

// injects waits until the Workspace's variables from datastores are exactly those.
func (w *tenant) injects(want ...string) *tenant {
	w.Helper()
	w.eventually("Workspace "+w.name+" gets its credentials", func() error { return w.injectedNow(want...) })
	return w
}
