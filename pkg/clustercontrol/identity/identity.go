// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity keeps the operator's identity key in a Secret of its own namespace. The leader makes the Secret when it is absent;
// nothing ever overwrites it, because the key in it is what Cluster Control knows this cluster by. Source: contract §7.
package identity

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/formspec/formspec-operator/pkg/clustercontrol"
)

const (
	// SecretName is the name of the Secret.
	SecretName = "formspec-operator-identity"
	// SecretKey is the data key of the private key: PEM, PKCS #8.
	SecretKey = "identity.pem"
)

// ErrAbsent is the error of Read and Source.Get when there is no Secret.
var ErrAbsent = errors.New("there is no identity key yet: the leader makes one when a Control Cluster URL is set")

// Read returns the key from the Secret in the operator's namespace, or ErrAbsent.
func Read(ctx context.Context, kube kubernetes.Interface, namespace string) (*clustercontrol.Identity, error) {
	secret, err := kube.CoreV1().Secrets(namespace).Get(ctx, SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, ErrAbsent
	}
	if err != nil {
		return nil, fmt.Errorf("read the identity Secret: %w", err)
	}
	return parse(secret)
}

// Ensure returns the key from the Secret, and makes both when there is none. It only ever creates: a Secret that holds no usable key is
// an error, and stays as it is. Only the leader may call it.
func Ensure(ctx context.Context, kube kubernetes.Interface, namespace string) (*clustercontrol.Identity, error) {
	found, err := Read(ctx, kube, namespace)
	if !errors.Is(err, ErrAbsent) {
		return found, err
	}
	made, err := clustercontrol.GenerateIdentity()
	if err != nil {
		return nil, err
	}
	encoded, err := made.Encode()
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: SecretName, Namespace: namespace, Labels: map[string]string{"app.kubernetes.io/name": "formspec-operator"}},
		Type:       corev1.SecretTypeOpaque,
		Data:       map[string][]byte{SecretKey: encoded},
	}
	_, err = kube.CoreV1().Secrets(namespace).Create(ctx, secret, metav1.CreateOptions{FieldManager: "formspec-identity"})
	if apierrors.IsAlreadyExists(err) { // somebody restored it a moment ago: theirs counts
		return Read(ctx, kube, namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("create the identity Secret: %w", err)
	}
	return made, nil
}

func parse(secret *corev1.Secret) (*clustercontrol.Identity, error) {
	content, ok := secret.Data[SecretKey]
	if !ok {
		return nil, malformed(secret, errors.New("is missing"))
	}
	key, err := clustercontrol.ParseIdentity(content)
	if err != nil {
		return nil, malformed(secret, err)
	}
	return key, nil
}

func malformed(secret *corev1.Secret, err error) error {
	return fmt.Errorf("key %q of Secret %s/%s %w. Restore it from a backup, or delete the Secret for a new key, which Cluster Control must then be told",
		SecretKey, secret.Namespace, secret.Name, err)
}
