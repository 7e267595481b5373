// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/generated/clientset/versioned"
)

const (
	// root of the repository, as seen from this package.
	root = "../.."
	// resourceImage is what --resource-image is by default. Here it is the stand-in.
	resourceImage = "formahub/formspec-resource:1.4.2"
)

// environment is one cluster with the operator installed, and the tests' own clients.
type environment struct {
	dir     string // the programs
	cluster *cluster
	address string // the real node's, at which pods reach servers of this machine

	kube     kubernetes.Interface
	formspec versioned.Interface

	metricsOnce sync.Once // see metricsAPI
	metricsErr  error
}

// setUp returns an environment even when it fails, for tearDown.
func setUp(ctx context.Context) (*environment, error) {
	env := &environment{}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute) // the first build of the control plane takes long
	defer cancel()
	var err error
	if env.dir, err = os.MkdirTemp("", "formspec-e2e-"); err != nil {
		return env, err
	}
	if err := env.build(ctx); err != nil {
		return env, err
	}
	if env.cluster, err = startCluster(ctx, env.path("devcluster")); err != nil {
		return env, err
	}
	if err := env.connect(ctx); err != nil {
		return env, err
	}
	return env, env.install(ctx)
}

func (env *environment) path(name string) string { return filepath.Join(env.dir, name) }

// build builds what goes into images, static, and devcluster, which is a module of its own.
func (env *environment) build(ctx context.Context) error {
	for _, args := range [][]string{
		{"build", "-C", filepath.Join(root, "hack/devcluster"), "-o", env.path("devcluster"), "."},
		{"build", "-C", root, "-trimpath", "-o", env.path("formspec-operator"), "./cmd/formspec-operator"},
		{"build", "-C", root, "-trimpath", "-o", env.path("formspec-resource"), "./test/resource"},
	} {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go %v: %w\n%s", args, err, out)
		}
	}
	return nil
}

func (env *environment) connect(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", env.cluster.kubeconfig)
	if err != nil {
		return err
	}
	config.UserAgent = "formspec-e2e-tests"
	config.QPS = -1
	if env.kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if env.formspec, err = versioned.NewForConfig(rest.CopyConfig(config)); err != nil {
		return err
	}
	node, err := env.kube.CoreV1().Nodes().Get(ctx, env.cluster.node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			env.address = a.Address
			return nil
		}
	}
	return errors.New("the real node has no address")
}

// install applies manifests/ as an administrator would, and makes an empty ConfigMap for owners' keys. The only change keeps the operator
// off simulated nodes, which run nothing.
func (env *environment) install(ctx context.Context) error {
	image, err := operatorImage()
	if err != nil {
		return err
	}
	for name, program := range map[string]string{image: "formspec-operator", resourceImage: "formspec-resource"} {
		if _, err := env.cluster.devcluster(ctx, "image", name, env.path(program)); err != nil {
			return err
		}
	}
	manifests, err := filepath.Abs(filepath.Join(root, "manifests"))
	if err != nil {
		return err
	}
	overlay := env.path("overlay")
	if manifests, err = filepath.Rel(overlay, manifests); err != nil {
		return err
	}
	if err := os.Mkdir(overlay, 0o700); err != nil {
		return err
	}
	kustomization := fmt.Sprintf(`resources: [%q]
patches:
  - target: {kind: Deployment}
    patch: '[{"op": "add", "path": "/spec/template/spec/nodeSelector", "value": {"kubernetes.io/hostname": %q}}]'
`, manifests, env.cluster.node)
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), []byte(kustomization), 0o600); err != nil {
		return err
	}
	if _, err := env.cluster.kubectl(ctx, "apply", "--server-side", "-k", overlay); err != nil {
		return err
	}
	if _, err := env.cluster.kubectl(ctx, "create", "configmap", v1alpha1.OwnerKeysConfigMap, "-n", systemNamespace); err != nil {
		return err
	}
	for _, namespace := range []string{systemNamespace, v1alpha1.ActivatorNamespace} {
		if _, err = env.cluster.kubectl(ctx, "wait", "-n", namespace, "--for=condition=Available", "deployment", "--all", "--timeout=2m"); err != nil {
			return err
		}
	}
	return nil
}

// operatorImage is the image that the manifests name.
func operatorImage() (string, error) {
	manifest, err := os.ReadFile(filepath.Join(root, "manifests", "40-deployment.yaml"))
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(`image: (formahub/formspec-operator:\S+)`).FindSubmatch(manifest)
	if found == nil {
		return "", errors.New("the manifests name no image of the operator")
	}
	return string(found[1]), nil
}

// tearDown leaves the machine as it was.
func (env *environment) tearDown() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var err error
	if env.cluster != nil {
		err = env.cluster.wipe(ctx)
	}
	return errors.Join(err, os.RemoveAll(env.dir))
}
