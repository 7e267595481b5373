package main

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestVersionsMatchModules(t *testing.T) {
	for _, p := range programs {
		if p.module == "" {
			continue // it is in this module
		}
		content, err := os.ReadFile(filepath.Join(p.source, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(content), p.module+" "+p.version+" ") {
			t.Errorf("%s/go.mod does not pin %s at %s", p.source, p.module, p.version)
		}
		if !slices.Contains(strings.Fields(string(content)), p.pkg) {
			t.Errorf("%s/go.mod does not list %s as a tool", p.source, p.pkg)
		}
	}
}

// Every component must be built, and must not start before what it needs.
func TestComponentsAreComplete(t *testing.T) {
	var before []string
	for _, k := range components {
		if k.program == nil && !slices.Contains(programNames(true), k.name) {
			t.Errorf("nothing builds %s", k.name)
		}
		if k.port != "" && !slices.Contains(portNames, k.port) {
			t.Errorf("nothing chooses the port of %s", k.name)
		}
		for _, need := range k.needs {
			if !slices.Contains(before, need) {
				t.Errorf("%s needs %s, which is not listed before it", k.name, need)
			}
		}
		before = append(before, k.name)
	}
}

func TestWaves(t *testing.T) {
	names := func(list []component) (groups [][]string) {
		for _, wave := range waves(list) {
			var group []string
			for _, k := range wave {
				group = append(group, k.name)
			}
			groups = append(groups, group)
		}
		return groups
	}
	for name, test := range map[string]struct {
		components []string
		want       [][]string
	}{
		"all": {componentNames(), [][]string{
			{"etcd"}, {"kube-apiserver"}, {"kube-controller-manager", "kube-scheduler", "kwok"},
		}},
		"without what they need": {[]string{"kwok", "kube-scheduler"}, [][]string{{"kube-scheduler", "kwok"}}},
		"none":                   {nil, nil},
	} {
		c := &instance{state: state{Options: options{Components: test.components}}}
		if got := names(c.selected()); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

func TestArgs(t *testing.T) {
	c := &instance{name: "a", data: "/data/a", bin: "/bin/dir", state: state{
		Ports: map[string]int{"etcd": 20001, "etcd-peer": 20002, "kube-apiserver": 20003, "kwok": 20004},
		Options: options{
			Fsync: true, Audit: true, KCMQPS: 50,
			FeatureGates:  []string{"A=true", "B=false"},
			APIServerArgs: []string{"--v=4"},
			KCMArgs:       []string{"--controllers=*"},
		},
	}}
	plain := &instance{state: state{Ports: c.Ports}}
	for name, test := range map[string]struct {
		args func(*instance) []string
		want []string // with the options above
		not  []string // without them
	}{
		"etcd": {
			etcdArgs,
			[]string{"--data-dir=/data/a/etcd", "--listen-client-urls=http://127.0.0.1:20001", "--listen-peer-urls=http://127.0.0.1:20002"},
			nil,
		},
		"kube-apiserver": {
			apiserverArgs,
			[]string{
				"--secure-port=20003", "--bind-address=127.0.0.1", "--etcd-servers=http://127.0.0.1:20001",
				"--audit-policy-file=/data/a/audit-policy.yaml", "--audit-log-path=/data/a/audit.log",
				"--feature-gates=A=true,B=false", "--v=4",
			},
			[]string{"--audit", "--feature-gates", "--v="},
		},
		"kube-controller-manager": {
			controllerManagerArgs,
			[]string{"--secure-port=0", "--kube-api-qps=50", "--kube-api-burst=100", "--feature-gates=A=true,B=false", "--controllers=*"},
			[]string{"--feature-gates", "--controllers"},
		},
		"kube-scheduler": {
			schedulerArgs,
			[]string{"--secure-port=0", "--kubeconfig=/data/a/pki/kube-scheduler.kubeconfig", "--feature-gates=A=true,B=false"},
			[]string{"--feature-gates"},
		},
		"kwok": {
			kwokArgs,
			[]string{"--config=/bin/dir/kwok-stages.yaml", "--config=/data/a/kwok-images.yaml", "--server-address=127.0.0.1:20004"},
			nil,
		},
	} {
		got := test.args(c)
		for _, want := range test.want {
			if !slices.Contains(got, want) {
				t.Errorf("%s: no %s in %v", name, want, got)
			}
		}
		for _, arg := range test.args(plain) {
			for _, not := range test.not {
				if strings.HasPrefix(arg, not) {
					t.Errorf("%s: %s without the option", name, arg)
				}
			}
		}
		for _, arg := range got {
			if strings.Contains(arg, "0.0.0.0") {
				t.Errorf("%s: %s is open to the network", name, arg)
			}
		}
	}
	if slices.Contains(etcdArgs(c), "--unsafe-no-fsync") || !slices.Contains(etcdArgs(plain), "--unsafe-no-fsync") {
		t.Error("etcd must call fsync with --fsync, and only then")
	}
}

func TestNodeSpec(t *testing.T) {
	spec := defaultNodeSpec()
	spec.labels = map[string]string{"formspec.dev/tier": "free", "x": "y"}
	got := spec.node(5)
	if want := "sim-prod-jakarta-enterprise-high-5"; got.Metadata.Name != want {
		t.Errorf("name %s, want %s", got.Metadata.Name, want)
	}
	for key, want := range map[string]string{
		"formspec.dev/environment":    "prod",
		"formspec.dev/region":         "jakarta",
		"formspec.dev/tier":           "free",
		"formspec.dev/capacity":       "high",
		"x":                           "y",
		"topology.kubernetes.io/zone": "jakarta-2",
		"kubernetes.io/hostname":      got.Metadata.Name,
	} {
		if got.Metadata.Labels[key] != want {
			t.Errorf("label %s=%s, want %s", key, got.Metadata.Labels[key], want)
		}
	}

	spec = defaultNodeSpec()
	spec.unlabelled = true
	for key := range spec.node(1).Metadata.Labels {
		if strings.HasPrefix(key, "formspec.dev/") {
			t.Errorf("an unlabelled node has %s", key)
		}
	}
}

func TestShellQuote(t *testing.T) {
	if got, want := shellQuote("/a b/it's"), `'/a b/it'\''s'`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestOptionsAreKeptUnlessGiven(t *testing.T) {
	saved := options{Components: []string{"etcd"}, Nodes: 3, Audit: true, KCMQPS: 50}
	given := options{Components: componentNames(), Nodes: 4, Fsync: true, KCMQPS: 200}

	if got := given.over(saved, func(string) bool { return false }); !reflect.DeepEqual(got, saved) {
		t.Errorf("with no flags: got %+v, want %+v", got, saved)
	}
	got := given.over(saved, func(flag string) bool { return flag == "fsync" || flag == "nodes" })
	want := options{Components: []string{"etcd"}, Nodes: 4, Audit: true, Fsync: true, KCMQPS: 50}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	// A flag that over does not know would be ignored in silence.
	flags := pflag.NewFlagSet("up", pflag.ContinueOnError)
	all := options{}
	all.addFlags(flags)
	flags.VisitAll(func(f *pflag.Flag) {
		if got := nonZero().over(options{}, func(flag string) bool { return flag == f.Name }); reflect.DeepEqual(got, options{}) {
			t.Errorf("--%s is not kept", f.Name)
		}
	})

	if saved.needsRestart(options{Components: []string{"etcd"}, Nodes: 9, Audit: true, KCMQPS: 50}) {
		t.Error("more nodes do not need a restart")
	}
	if !saved.needsRestart(want) {
		t.Error("fsync needs a restart")
	}
}

func nonZero() options {
	one := []string{"x"}
	return options{
		Components: one, Nodes: 1, NodesUnlabelled: 1, Fsync: true, Audit: true,
		FeatureGates: one, APIServerArgs: one, KCMArgs: one, KCMQPS: 1,
	}
}
