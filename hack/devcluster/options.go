package main

import (
	"reflect"

	"github.com/spf13/pflag"
)

// options are the settings of "up" which later calls have to repeat.
type options struct {
	Components      []string `json:"components"`
	Nodes           int      `json:"nodes"`
	NodesUnlabelled int      `json:"nodesUnlabelled,omitempty"`
	Fsync           bool     `json:"fsync,omitempty"`
	Audit           bool     `json:"audit,omitempty"`
	FeatureGates    []string `json:"featureGates,omitempty"`
	APIServerArgs   []string `json:"apiserverArgs,omitempty"`
	KCMArgs         []string `json:"kcmArgs,omitempty"`
	KCMQPS          int      `json:"kcmQPS"`

	RealNode *realNode `json:"realNode,omitempty"` // set by "node", not by "up"
}

func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.Components, "components", componentNames(), "which components to run")
	flags.IntVar(&o.Nodes, "nodes", 4, "simulated nodes with the default labels (see \"nodes --help\")")
	flags.IntVar(&o.NodesUnlabelled, "nodes-unlabelled", 0, "simulated nodes without formspec.dev labels")
	flags.BoolVar(&o.Fsync, "fsync", false, "make etcd durable, which is slower")
	flags.BoolVar(&o.Audit, "audit", false, "write an audit log with the metadata of every request")
	flags.StringArrayVar(&o.FeatureGates, "feature", nil, "feature gate for all Kubernetes components, NAME=BOOL; may be repeated")
	flags.StringArrayVar(&o.APIServerArgs, "apiserver-arg", nil, "further argument of kube-apiserver; may be repeated")
	flags.StringArrayVar(&o.KCMArgs, "kcm-arg", nil, "further argument of kube-controller-manager; may be repeated")
	flags.IntVar(&o.KCMQPS, "kcm-qps", 200, "requests per second that kube-controller-manager may make; its burst is twice that")
}

// over returns saved with the options that were given on the command line
// replaced, so that a plain "up" brings an instance back as it was.
func (o options) over(saved options, given func(flag string) bool) options {
	merged := saved
	for flag, set := range map[string]func(){
		"components":       func() { merged.Components = o.Components },
		"nodes":            func() { merged.Nodes = o.Nodes },
		"nodes-unlabelled": func() { merged.NodesUnlabelled = o.NodesUnlabelled },
		"fsync":            func() { merged.Fsync = o.Fsync },
		"audit":            func() { merged.Audit = o.Audit },
		"feature":          func() { merged.FeatureGates = o.FeatureGates },
		"apiserver-arg":    func() { merged.APIServerArgs = o.APIServerArgs },
		"kcm-arg":          func() { merged.KCMArgs = o.KCMArgs },
		"kcm-qps":          func() { merged.KCMQPS = o.KCMQPS },
	} {
		if given(flag) {
			set()
		}
	}
	return merged
}

// needsRestart tells whether going from o to next takes more than new nodes.
func (o options) needsRestart(next options) bool {
	next.Nodes, next.NodesUnlabelled = o.Nodes, o.NodesUnlabelled
	return !reflect.DeepEqual(o, next)
}
