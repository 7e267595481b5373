// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/datastore"
	reconcile "github.com/formspec/formspec-operator/pkg/reconcile/datastore"
)

// caKey is the key of an endpoint Secret, and of a managed one, with the certificate authority of the server.
const caKey = "ca.crt"

// readOnlyPrefix precedes the parts for reading only in a managed Secret; readOnlySuffix makes the key of their connection string in the
// endpoint Secret from the key of the other.
const (
	readOnlyPrefix = "read-only-"
	readOnlySuffix = "-read-only"
)

func sourceOf(secret metav1.Object) *reconcile.Source {
	return &reconcile.Source{UID: secret.GetUID(), ResourceVersion: secret.GetResourceVersion()}
}

// read makes an offer of what the endpoint Secret holds now. It is the one live read of a Datastore, made when the Secret has changed.
func (c *Controller) read(ctx context.Context, key cache.ObjectName, in *reconcile.Input) error {
	ref := in.Datastore.Spec.EndpointSecretRef
	secret, err := c.client.CoreV1().Secrets(key.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil // its metadata will say so
	}
	if err != nil {
		return fmt.Errorf("get Secret %s/%s: %w", key.Namespace, ref.Name, err)
	}
	now := *in // the Secret may be newer than its metadata
	now.Source = sourceOf(secret)
	offer, endpoint := interpret(in.Datastore, secret)
	offer.Origin = now.Origin()
	c.offers.read(key, offer, endpoint)
	if offer.Trimmed {
		c.recorder.Eventf(in.Datastore, nil, corev1.EventTypeNormal, v1alpha1.ReasonTrimmed, "Read",
			"line ends at the end of key %q of Secret %q are left out", ref.Key, ref.Name)
	}
	return nil
}

// interpret parses the connection string of an endpoint Secret. Nothing of it gets into a message.
func interpret(ds *v1alpha1.Datastore, secret *corev1.Secret) (*reconcile.Offer, datastore.Endpoint) {
	ref := ds.Spec.EndpointSecretRef
	refuse := func(reason, format string, args ...any) (*reconcile.Offer, datastore.Endpoint) {
		return &reconcile.Offer{Invalid: &reconcile.Finding{Reason: reason, Message: fmt.Sprintf(format, args...), Stalled: true}}, datastore.Endpoint{}
	}
	if secret.Type == corev1.SecretTypeServiceAccountToken {
		return refuse(v1alpha1.ReasonSecretTypeRefused, "Secret %q is a service account token. Make a Secret for the connection string", ref.Name)
	}
	text := secret.Data[ref.Key]
	if len(text) == 0 {
		return refuse(v1alpha1.ReasonSecretKeyEmpty, "Secret %q has nothing under the key %q. Put the connection string there", ref.Name, ref.Key)
	}
	endpoint, err := datastore.Parse(ds.Spec.Driver, string(text), secret.Data[caKey])
	if err != nil {
		return refuse(reasonOf(err), "key %q of Secret %q: %v", ref.Key, ref.Name, err)
	}
	data := endpoint.Parts()
	if limited := secret.Data[ref.Key+readOnlySuffix]; len(limited) > 0 {
		reader, err := datastore.Parse(ds.Spec.Driver, string(limited), secret.Data[caKey])
		if err != nil {
			return refuse(reasonOf(err), "key %q of Secret %q: %v", ref.Key+readOnlySuffix, ref.Name, err)
		}
		for part, value := range reader.Parts() {
			data[readOnlyPrefix+part] = value
		}
	} else if uri, ok := endpoint.ReadOnlyURI(); ok {
		data[readOnlyPrefix+"uri"] = []byte(uri)
	}
	if ca := endpoint.CA(); len(ca) > 0 {
		data[caKey] = ca
	}
	return &reconcile.Offer{Data: maps.Clone(data), Trimmed: endpoint.Trimmed()}, endpoint
}

func reasonOf(err error) string {
	if invalid, ok := errors.AsType[*datastore.Error](err); ok {
		return invalid.Reason
	}
	return v1alpha1.ReasonInternalError
}

// probe looks at the offer in the background. Its end wakes the key.
func (c *Controller) probe(ctx context.Context, key cache.ObjectName, in *reconcile.Input) {
	c.start(ctx, key, in.Offer.Origin, c.offers.recall(key, in.Now).endpoint)
}

// recheck looks at the credentials in force, from our own copy, in the background.
func (c *Controller) recheck(ctx context.Context, key cache.ObjectName, in *reconcile.Input) {
	endpoint, err := datastore.Parse(in.Datastore.Spec.Driver, string(in.Managed.Live.Data["uri"]), in.Managed.Live.Data[caKey])
	if err != nil {
		ref := in.Datastore.Spec.EndpointSecretRef
		c.offers.unreadable(key, reconcile.Finding{
			Reason: reasonOf(err), Stalled: true,
			Message: fmt.Sprintf("the credentials in force, from the key %q of Secret %q, cannot be read any more: %v", ref.Key, ref.Name, err),
		}, c.clock.Now())
		c.queue.Add(key) // the condition shows it
		return
	}
	c.start(ctx, key, inForce, endpoint)
}

func (c *Controller) start(ctx context.Context, key cache.ObjectName, what string, endpoint datastore.Endpoint) {
	if !c.offers.begin(key, what) {
		return
	}
	klog.FromContext(ctx).V(4).Info("Probing", "datastore", key)
	c.pool.Submit(key, endpoint, func(result datastore.Result) {
		c.offers.ended(key, what, result, c.clock.Now())
		c.queue.Add(key)
	})
}
