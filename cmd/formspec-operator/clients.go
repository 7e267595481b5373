// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/controllers/lead"
	"github.com/formspec/formspec-operator/pkg/controllers/tolerant"
	"github.com/formspec/formspec-operator/pkg/generated/clientset/versioned"
	"github.com/formspec/formspec-operator/pkg/generated/clientset/versioned/scheme"
	"github.com/formspec/formspec-operator/pkg/version"
)

// defaultNamespace is the operator's own namespace when it does not run in a pod.
const defaultNamespace = "formspec-system"

// serviceAccountNamespace is the file that tells a pod its namespace.
const serviceAccountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// ownNamespace returns the namespace that file names, else defaultNamespace.
func ownNamespace(file string) string {
	content, err := os.ReadFile(file)
	if namespace := strings.TrimSpace(string(content)); err == nil && namespace != "" {
		return namespace
	}
	return defaultNamespace
}

// clients reach the API server over one pool of connections.
type clients struct {
	kube     kubernetes.Interface
	formspec versioned.Interface
	metadata metadata.Interface
	dynamic  dynamic.Interface
}

// newClients makes clients for config: built-in kinds go over protobuf, our own are JSON.
func newClients(config *rest.Config) (clients, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return clients{}, fmt.Errorf("set up the transport: %w", err)
	}
	builtIn := rest.CopyConfig(config)
	builtIn.ContentType = runtime.ContentTypeProtobuf
	builtIn.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	kube, err := kubernetes.NewForConfigAndClient(builtIn, httpClient)
	if err != nil {
		return clients{}, fmt.Errorf("set up the client for built-in kinds: %w", err)
	}
	own := rest.CopyConfig(config)
	own.APIPath, own.GroupVersion = "/apis", &v1alpha1.SchemeGroupVersion
	own.NegotiatedSerializer = tolerant.Serializer(rest.CodecFactoryForGeneratedClient(scheme.Scheme, scheme.Codecs).WithoutConversion())
	formspec, err := rest.RESTClientForConfigAndClient(own, httpClient)
	if err != nil {
		return clients{}, fmt.Errorf("set up the client for our own kinds: %w", err)
	}
	partial, err := metadata.NewForConfigAndClient(metadata.ConfigFor(config), httpClient)
	if err != nil {
		return clients{}, fmt.Errorf("set up the client for metadata: %w", err)
	}
	others, err := dynamic.NewForConfigAndClient(dynamic.ConfigFor(config), httpClient)
	if err != nil {
		return clients{}, fmt.Errorf("set up the client for other kinds: %w", err)
	}
	return clients{kube: kube, formspec: versioned.New(formspec), metadata: partial, dynamic: others}, nil
}

// loadConfig returns the config of the cluster that o names. What it limits is shared by all clients made from it.
func loadConfig(o *options) (*rest.Config, error) {
	config, err := connection(o.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("load the client config: %w", err)
	}
	config.UserAgent = "formspec-operator/" + version.Get().Version
	config.QPS = o.kubeAPIQPS
	if o.kubeAPIQPS > 0 {
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(o.kubeAPIQPS, o.kubeAPIBurst)
	}
	return config, nil
}

// inPod says whether this process runs in the cluster that it works on. A pod's loopback is no other pod's.
func inPod(o *options) bool {
	_, err := rest.InClusterConfig()
	return o.kubeconfig == "" && err == nil
}

func connection(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if !errors.Is(err, rest.ErrNotInCluster) {
			return config, err
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
}

// fencedConfig is for the clients that write: they reach the API server only while this process leads.
func fencedConfig(config *rest.Config, fence *lead.Fence) *rest.Config {
	fenced := rest.CopyConfig(config)
	fenced.Dial = fence.WrapDial(newDialer().DialContext)
	fenced.Wrap(fence.WrapTransport)
	return fenced
}

// electionConfig is for the client that renews the lease. It waits for no rate limit, and speaks HTTP/1.1: a connection that has gone
// dead is then given up with the request that met it, while HTTP/2 would send the next renewals down the same one and lose the lease.
func electionConfig(config *rest.Config) *rest.Config {
	election := rest.CopyConfig(config)
	election.QPS = -1
	election.RateLimiter = nil
	election.NextProtos = []string{"http/1.1"}
	return election
}
