package main

import (
	"debug/buildinfo"
	"path/filepath"
	"runtime/debug"
	"slices"
)

// A program is one binary that is built from a pinned Go module.
type program struct {
	name    string // file name in the bin directory
	pkg     string // its main package
	source  string // the nested module that pins it
	module  string // the module that holds pkg
	version string // the version of that module
	ldflags string
	node    bool // only a real node needs it
}

// Kubernetes takes its version from link flags; without them clients and
// servers report v0.0.0-master.
const kubernetesLdflags = "-X k8s.io/component-base/version.gitVersion=" + kubernetesVersion +
	" -X k8s.io/client-go/pkg/version.gitVersion=" + kubernetesVersion

func kubernetesProgram(name string) program {
	return program{
		name: name, pkg: "k8s.io/kubernetes/cmd/" + name, source: "components",
		module: "k8s.io/kubernetes", version: kubernetesVersion, ldflags: kubernetesLdflags,
	}
}

// programs is what "devcluster build" builds, in this order: the quick ones
// first, so that a broken tool chain shows within a minute.
var programs = []program{
	{
		name: "etcd", pkg: "go.etcd.io/etcd/server/v3", source: "components",
		module: "go.etcd.io/etcd/server/v3", version: etcdVersion,
	},
	kubernetesProgram("kube-apiserver"),
	kubernetesProgram("kube-controller-manager"),
	kubernetesProgram("kube-scheduler"),
	kubernetesProgram("kubectl"),
	{
		name: "kwok", pkg: "sigs.k8s.io/kwok/cmd/kwok", source: "kwok",
		module: "sigs.k8s.io/kwok", version: kwokVersion,
	},
	nodeProgram(kubernetesProgram("kubelet")),
	nodeProgram(kubernetesProgram("kube-proxy")),
	nodeProgram(program{name: "pause", pkg: "./pause", source: "."}),
	nodeProgram(program{
		name: "metrics-server", pkg: "sigs.k8s.io/metrics-server/cmd/metrics-server", source: "metrics",
		module: "sigs.k8s.io/metrics-server", version: metricsServerVersion,
	}),
}

func nodeProgram(p program) program {
	p.node = true
	return p
}

// programNames are the programs of a control plane or all that there are.
func programNames(node bool) []string {
	var names []string
	for _, p := range programs {
		if node || !p.node {
			names = append(names, p.name)
		}
	}
	return names
}

// built tells whether bin holds this program at the pinned version. Go records
// module versions in every binary, so no stamp file can go stale.
func (p program) built(bin string) bool {
	info, err := buildinfo.ReadFile(filepath.Join(bin, p.name))
	if err != nil {
		return false
	}
	if p.module == "" {
		return true // our own, and it never changes
	}
	return info.Main.Path == p.module && info.Main.Version == p.version ||
		slices.ContainsFunc(info.Deps, func(m *debug.Module) bool {
			return m.Path == p.module && m.Version == p.version
		})
}
