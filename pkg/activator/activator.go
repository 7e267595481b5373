// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"context"
	"net/http"
	"net/http/httputil"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"

	"github.com/formspec/formspec-operator/pkg/activator/leases"
	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/generated/clientset/versioned"
	formspeclisters "github.com/formspec/formspec-operator/pkg/generated/listers/formspec/v1alpha1"
)

// Config is what an Activator is built from. Every field is required.
type Config struct {
	// Kube and FormSpec read for the caches.
	Kube     kubernetes.Interface
	FormSpec versioned.Interface
	// Write writes Leases. It should fail soon while the API server is away.
	Write kubernetes.Interface
	// Identity of this replica in the Leases.
	Identity string
	// IdleAfter is the idle window of Workspaces whose class does not have one.
	IdleAfter time.Duration
	// WakeDeadline is how long a request is held.
	WakeDeadline time.Duration
	// MaxHeld limits the requests that are held, MaxHeldPerWorkspace those for one Workspace.
	MaxHeld, MaxHeldPerWorkspace int
	// LeaseWritesPerSecond is the budget of renewals of this replica.
	LeaseWritesPerSecond int
	// Metrics takes the activator's own.
	Metrics metrics.KubeRegistry
}

// Activator is an HTTP handler that forwards requests to Workspaces, and wakes those that sleep.
type Activator struct {
	config     Config
	informers  *informers
	workspaces formspeclisters.WorkspaceLister
	classes    formspeclisters.ClusterClassLister
	slices     cache.TypedIndexer[*discoveryv1.EndpointSlice]
	routes     *routes
	holds      *holds
	keeper     *leases.Keeper
	metrics    *proxyMetrics
	proxy      *httputil.ReverseProxy
	transport  *transport
	running    running
	endpoints  sync.Mutex
}

// New returns an Activator, which serves once it was started.
func New(ctx context.Context, config Config) (*Activator, error) {
	proxyMetrics, err := newProxyMetrics(config.Metrics)
	if err != nil {
		return nil, err
	}
	wrote, err := leases.NewMetrics(config.Metrics)
	if err != nil {
		return nil, err
	}
	a := &Activator{config: config, informers: newInformers(config), metrics: proxyMetrics}
	own := a.informers.formspec.Formspec().V1alpha1()
	a.workspaces, a.classes = own.Workspaces().Lister(), own.ClusterClasses().Lister()
	a.slices = a.informers.slices.Discovery().V1().EndpointSlices().TypedInformer().GetTypedIndexer()
	a.routes = &routes{workspaces: a.workspaces, index: own.Workspaces().TypedInformer().GetTypedIndexer(), classes: a.classes, stale: true}
	a.holds = newHolds(config, dialOnce, proxyMetrics)
	writer := &leases.Writer{Client: config.Write.CoordinationV1().Leases(v1alpha1.ActivatorNamespace), Identity: config.Identity}
	a.keeper = leases.NewKeeper(leases.Config{Write: writer.Write, WritesPerSecond: config.LeaseWritesPerSecond, Wrote: wrote})
	a.transport = newTransport()
	a.proxy = a.newProxy(ctx)
	if err := a.watch(ctx); err != nil {
		return nil, err
	}
	return a, nil
}

// Run keeps the Leases until ctx ends.
func (a *Activator) Run(ctx context.Context) { a.keeper.Run(ctx) }

// ServeHTTP forwards a request. It returns when the answer has ended, also that of an upgraded connection.
func (a *Activator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.running.add(1)
	defer a.running.add(-1)
	if r.Method == http.MethodConnect {
		plain(w, http.StatusMethodNotAllowed, "The activator is not a forward proxy.")
		return
	}
	name, ok := hostName(r.Host)
	var ws *v1alpha1.Workspace
	if ok {
		ws = a.routes.find(name)
	}
	if ws == nil {
		a.metrics.ended("", outcomeUnknownHost)
		unknownHost(w, r.Host)
		return
	}
	p := a.newPassage(r, ws)
	defer func() { a.metrics.ended(ws.Spec.ClusterClass, p.outcome) }()
	if p.sleeps {
		a.keeper.Begin(p.lease)
		defer a.keeper.End(p.lease)
	}
	a.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), passageKey{}, p)))
}

// passage is one request on its way.
type passage struct {
	workspace *v1alpha1.Workspace // as it was when the request came
	pods      cache.ObjectName
	lease     leases.Workspace
	sleeps    bool // the class scales to zero
	starting  bool // the client gets the starting page rather than wait
	arrived   time.Time
	major     int  // the client's version of HTTP
	cold      bool // no pod was Ready
	held      time.Duration
	client    *client
	outcome   outcome
}

type passageKey struct{}

func passageOf(ctx context.Context) *passage {
	p, _ := ctx.Value(passageKey{}).(*passage)
	return p
}

func (a *Activator) newPassage(r *http.Request, ws *v1alpha1.Workspace) *passage {
	p := &passage{
		workspace: ws,
		pods:      podsKey(ws),
		lease:     leases.Workspace{Namespace: ws.Namespace, Name: ws.Name, UID: ws.UID, Window: a.config.IdleAfter},
		sleeps:    true, // as long as nobody knows better
		arrived:   time.Now(),
		major:     r.ProtoMajor,
		client:    clientOf(r.Context()),
		outcome:   outcomeForwarded,
	}
	if class, err := a.classes.Get(ws.Spec.ClusterClass); err == nil {
		p.sleeps = class.Spec.Scaling.ScaleToZero
		if idle := class.Spec.Scaling.IdleAfter; idle != nil && idle.Duration > 0 {
			p.lease.Window = idle.Duration
		}
		p.starting = p.sleeps && class.Annotations[v1alpha1.AnnotationStartingPage] == "true" && wantsPage(r)
	}
	return p
}

// asleep says whether the operator has not heard the wake yet, as far as the cache knows.
func (a *Activator) asleep(p *passage) bool {
	ws, err := a.workspaces.Workspaces(p.workspace.Namespace).Get(p.workspace.Name)
	return err == nil && asleep(ws)
}

// reason says why a Workspace has not become ready, in the operator's word.
func (a *Activator) reason(p *passage) string {
	ws, err := a.workspaces.Workspaces(p.workspace.Namespace).Get(p.workspace.Name)
	if err != nil {
		return ""
	}
	return whyNotReady(ws)
}
