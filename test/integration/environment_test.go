// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/generated/clientset/versioned"
	"github.com/formspec/formspec-operator/test/servers"
)

// root of the repository, as seen from this package.
const root = "../.."

// environment is one control plane with one operator, and the tests' own clients.
type environment struct {
	dir     string // programs, logs and kubeconfigs; it stays when something failed
	cluster *cluster
	audit   *auditLog

	kube     kubernetes.Interface
	formspec versioned.Interface
	dynamic  dynamic.Interface

	operator *process // the one that works in all namespaces
	renders  sync.Map // output of render by its input

	postgresServer server[*servers.PostgresServer]
	redisServer    server[*servers.RedisServer]

	mu        sync.Mutex
	processes []*process // every operator that was ever started
}

// setUp returns an environment even when it fails, for tearDown.
func setUp(ctx context.Context) (*environment, error) {
	env := &environment{}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute) // the first build of the control plane takes long
	defer cancel()
	var err error
	if env.dir, err = os.MkdirTemp("", "formspec-integration-"); err != nil {
		return env, err
	}
	if err := env.build(ctx); err != nil {
		return env, err
	}
	return env, env.bringUp(ctx, "")
}

// bringUp starts the control plane, whose name ends so, and the operator from the programs that are there.
func (env *environment) bringUp(ctx context.Context, suffix string) (err error) {
	if env.cluster, err = startCluster(ctx, env.path("devcluster"), "it-"+strconv.Itoa(os.Getpid())+suffix); err != nil {
		return err
	}
	env.audit = &auditLog{path: env.cluster.auditLog, env: env}
	if err := env.connect(); err != nil {
		return err
	}
	if err := env.install(ctx); err != nil {
		return err
	}
	env.operator, err = env.start(ctx, mainOperator)
	return err
}

func (env *environment) path(name string) string { return filepath.Join(env.dir, name) }

// build builds what is tested with the race detector, and devcluster, which is a module of its own.
func (env *environment) build(ctx context.Context) error {
	for _, args := range [][]string{
		{"build", "-C", filepath.Join(root, "hack/devcluster"), "-o", env.path("devcluster"), "."},
		{"build", "-C", root, "-race", "-o", env.path("formspec-operator"), "./cmd/formspec-operator"},
	} {
		if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("go %v: %w\n%s", args, err, out)
		}
	}
	return nil
}

func (env *environment) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", env.cluster.kubeconfig)
	if err != nil {
		return err
	}
	config.UserAgent = "formspec-integration-tests"
	config.QPS = -1
	if env.kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if env.formspec, err = versioned.NewForConfig(rest.CopyConfig(config)); err != nil {
		return err
	}
	env.dynamic, err = dynamic.NewForConfig(rest.CopyConfig(config))
	return err
}

// install applies the manifests as an administrator would, without the operator's Deployment: simulated nodes run nothing.
func (env *environment) install(ctx context.Context) error {
	args := []string{"apply", "--server-side"}
	for _, name := range []string{"00-namespace.yaml", "10-crds.yaml", "20-rbac.yaml"} {
		args = append(args, "-f", filepath.Join(root, "manifests", name))
	}
	if _, err := env.cluster.kubectl(ctx, args...); err != nil {
		return err
	}
	if _, err := env.cluster.kubectl(ctx, "create", "configmap", v1alpha1.OwnerKeysConfigMap, "-n", systemNamespace); err != nil {
		return err
	}
	_, err := env.cluster.kubectl(ctx, "wait", "--for=condition=Established", "--timeout=60s", "crd",
		"clusterclasses.formspec.dev", "workspaces.formspec.dev", "datastores.formspec.dev", "resourceclaims.formspec.dev")
	return err
}

// tearDown ends everything and returns what the operators complained about.
func (env *environment) tearDown() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var errs []error
	for _, p := range env.processes {
		p.stop()
		errs = append(errs, p.complaints())
	}
	env.postgresServer.keeper.end()
	env.redisServer.keeper.end()
	if env.cluster != nil {
		errs = append(errs, env.cluster.wipe(ctx))
	}
	err := errors.Join(errs...)
	if err == nil && env.dir != "" && os.Getenv("FORMSPEC_KEEP_LOGS") == "" {
		return os.RemoveAll(env.dir)
	}
	fmt.Fprintln(os.Stderr, "logs of the operators are in", env.dir)
	return err
}
