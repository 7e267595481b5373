// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/clustercontrol"
)

var errNotRead = errors.New("the identity Secret has not been read yet")

// Source is the key as the Secret has it now. It watches this one Secret, so that a key which was replaced counts at once and a key
// which stays costs nothing.
type Source struct {
	namespace string
	factory   informers.SharedInformerFactory
	secrets   coreinformers.SecretInformer

	mu   sync.Mutex
	seen *corev1.Secret // that key and err are from
	key  *clustercontrol.Identity
	err  error
}

// NewSource returns the source for the Secret in the operator's own namespace. It knows nothing before Start.
func NewSource(kube kubernetes.Interface, namespace string) *Source {
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, SecretName).String()
	factory := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.FieldSelector = only }))
	s := &Source{namespace: namespace, factory: factory, secrets: factory.Core().V1().Secrets()}
	s.secrets.Informer() // or Start would start nothing
	return s
}

// Start begins to watch. Nobody needs to wait for it: until the Secret was read, Get says so.
func (s *Source) Start(ctx context.Context) { s.factory.StartWithContext(ctx) }

// Shutdown waits until watching has ended.
func (s *Source) Shutdown() { s.factory.Shutdown() }

// Wait returns when the Secret was looked for once, or ctx ends.
func (s *Source) Wait(ctx context.Context) {
	cache.WaitFor(ctx, "", s.secrets.Informer().HasSyncedChecker())
}

// Get returns the key, ErrAbsent, or what is wrong with the Secret. It makes no request, and fits clustercontrol.Options.Identity.
func (s *Source) Get() (*clustercontrol.Identity, error) {
	if !s.secrets.Informer().HasSynced() {
		return nil, errNotRead
	}
	secret, err := s.secrets.Lister().Secrets(s.namespace).Get(SecretName)
	if apierrors.IsNotFound(err) {
		return nil, ErrAbsent
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen != secret { // a cache holds another object for each change
		s.seen = secret
		s.key, s.err = parse(secret)
	}
	return s.key, s.err
}
