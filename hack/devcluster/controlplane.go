package main

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	loopback       = "127.0.0.1"
	serviceRange   = "10.96.0.0/16"
	firstServiceIP = "10.96.0.1" // the "kubernetes" Service
	podRange       = "10.244.0.0/16"
)

var (
	//go:embed audit-policy.yaml
	auditPolicy []byte
	//go:embed kwok-images.yaml
	imageStages []byte
)

// writeConfigs writes the files that components read beside their flags.
func (c *instance) writeConfigs() error {
	if err := writeFile(c.path("audit-policy.yaml"), auditPolicy, 0o644); err != nil {
		return err
	}
	if err := writeFile(c.path("kwok-images.yaml"), imageStages, 0o644); err != nil {
		return err
	}
	if c.Options.RealNode == nil {
		return nil
	}
	return c.writeNodeConfigs()
}

func (c *instance) auditLog() string { return c.path("audit.log") }

func (c *instance) url(scheme, port string) string {
	return scheme + "://" + loopback + ":" + strconv.Itoa(c.Ports[port])
}

func (c *instance) apiserverURL() string { return c.url("https", "kube-apiserver") }

func etcdArgs(c *instance) []string {
	client, peer := c.url("http", "etcd"), c.url("http", "etcd-peer")
	args := []string{
		"--name=default",
		"--data-dir=" + c.path("etcd"),
		"--listen-client-urls=" + client,
		"--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=default=" + peer,
		"--log-level=warn",
		// A lone member still waits one election timeout for a rival that never
		// comes: a quarter of the default second.
		"--heartbeat-interval=50",
		"--election-timeout=250",
	}
	if !c.Options.Fsync {
		// Several times faster on ordinary disks. What it gives up is data after
		// a crash of the machine, not of a process.
		args = append(args, "--unsafe-no-fsync")
	}
	return args
}

func etcdReady(ctx context.Context, c *instance) error {
	return getOK(ctx, http.DefaultClient, c.url("http", "etcd")+"/health")
}

func apiserverArgs(c *instance) []string {
	args := []string{
		"--etcd-servers=" + c.url("http", "etcd"),
		"--secure-port=" + strconv.Itoa(c.Ports["kube-apiserver"]),
		"--tls-cert-file=" + c.path("pki", "kube-apiserver.crt"),
		"--tls-private-key-file=" + c.path("pki", "kube-apiserver.key"),
		"--client-ca-file=" + c.path("pki", "ca.crt"),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--service-account-key-file=" + c.path("pki", "service-account.key"),
		"--service-account-signing-key-file=" + c.path("pki", "service-account.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-cluster-ip-range=" + serviceRange,
		"--allow-privileged=true",
		"--profiling=false",
	}
	if node := c.Options.RealNode; node != nil {
		args = append(args,
			"--bind-address=0.0.0.0", // both loopback and the node's address
			"--advertise-address="+node.Address,
			"--kubelet-client-certificate="+c.path("pki", "kubelet-client.crt"),
			"--kubelet-client-key="+c.path("pki", "kubelet-client.key"),
			"--kubelet-preferred-address-types=InternalIP", // its name need not resolve
			// How it tells servers behind it, such as that of metrics, who asks.
			"--requestheader-client-ca-file="+c.path("pki", frontProxyCA+".crt"),
			"--requestheader-allowed-names="+frontProxyUser,
			"--requestheader-username-headers=X-Remote-User",
			"--requestheader-group-headers=X-Remote-Group",
			"--requestheader-extra-headers-prefix=X-Remote-Extra-",
			"--proxy-client-cert-file="+c.path("pki", frontProxyUser+".crt"),
			"--proxy-client-key-file="+c.path("pki", frontProxyUser+".key"),
		)
	} else {
		args = append(args,
			"--bind-address="+loopback,
			"--advertise-address="+loopback,
			// Endpoints may not hold loopback addresses, so the "kubernetes"
			// Service cannot have any.
			"--endpoint-reconciler-type=none",
		)
	}
	if c.Options.Audit {
		args = append(args,
			"--audit-policy-file="+c.path("audit-policy.yaml"),
			"--audit-log-path="+c.auditLog(),
			// A line per request and in order: tests count them.
			"--audit-log-mode=blocking",
		)
	}
	args = append(args, c.featureGates()...)
	return append(args, c.Options.APIServerArgs...)
}

func apiserverReady(ctx context.Context, c *instance) error {
	api, err := c.api()
	if err != nil {
		return err
	}
	return getOK(ctx, api.http, api.server+"/readyz")
}

func controllerManagerArgs(c *instance) []string {
	kubeconfig := c.path("pki", "kube-controller-manager.kubeconfig")
	args := []string{
		"--kubeconfig=" + kubeconfig,
		"--leader-elect=false", // only one runs, and waiting for a lease costs seconds
		"--secure-port=0",
		"--service-account-private-key-file=" + c.path("pki", "service-account.key"),
		"--root-ca-file=" + c.path("pki", "ca.crt"),
		"--cluster-signing-cert-file=" + c.path("pki", "ca.crt"),
		"--cluster-signing-key-file=" + c.path("pki", "ca.key"),
		"--use-service-account-credentials=true",
		// Its default is a system directory, which it creates when it can.
		"--flex-volume-plugin-dir=" + c.path("flexvolume"),
		"--horizontal-pod-autoscaler-sync-period=5s",
		// The default of 20 makes deleting a few hundred owned objects take
		// long enough to look like a defect of the operator.
		"--kube-api-qps=" + strconv.Itoa(c.Options.KCMQPS),
		"--kube-api-burst=" + strconv.Itoa(2*c.Options.KCMQPS),
		"--profiling=false",
	}
	args = append(args, c.featureGates()...)
	return append(args, c.Options.KCMArgs...)
}

// controllerManagerReady waits for what the first pod needs.
func controllerManagerReady(ctx context.Context, c *instance) error {
	api, err := c.api()
	if err != nil {
		return err
	}
	return api.do(ctx, http.MethodGet, "/api/v1/namespaces/default/serviceaccounts/default", nil, nil)
}

func schedulerArgs(c *instance) []string {
	return append([]string{
		"--kubeconfig=" + c.path("pki", "kube-scheduler.kubeconfig"),
		"--leader-elect=false",
		"--secure-port=0",
		"--kube-api-qps=200",
		"--kube-api-burst=400",
		"--profiling=false",
	}, c.featureGates()...)
}

func kwokArgs(c *instance) []string {
	return []string{
		"--kubeconfig=" + c.path("pki", "kwok.kubeconfig"),
		"--config=" + filepath.Join(c.bin, stagesFile),
		"--config=" + c.path("kwok-images.yaml"),
		"--manage-nodes-with-annotation-selector=" + simulatedAnnotation + "=" + simulatedValue,
		"--node-lease-duration-seconds=40",
		"--node-ip=" + loopback,
		"--cidr=" + podRange,
		"--server-address=" + loopback + ":" + strconv.Itoa(c.Ports["kwok"]),
	}
}

func kwokReady(ctx context.Context, c *instance) error {
	return getOK(ctx, http.DefaultClient, c.url("http", "kwok")+"/healthz")
}

// featureGates go to all three Kubernetes components, which share their names.
func (c *instance) featureGates() []string {
	if len(c.Options.FeatureGates) == 0 {
		return nil
	}
	return []string{"--feature-gates=" + strings.Join(c.Options.FeatureGates, ",")}
}

// prepare writes everything that components find on disk.
func (c *instance) prepare() error {
	if err := os.MkdirAll(c.path("log"), 0o700); err != nil {
		return err
	}
	if err := c.writePKI(); err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	if err := c.writeKubeconfigs(); err != nil {
		return fmt.Errorf("kubeconfigs: %w", err)
	}
	return c.writeConfigs()
}
