// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/clustercontrol"
	"github.com/formspec/formspec-operator/pkg/clustercontrol/identity"
	"github.com/formspec/formspec-operator/pkg/reconcile/report"
)

// Name of the reporters: in logs and Events, and as the field manager of the Notes.
const Name = "formspec-reports"

// prepareRetry is how soon what must work before the first report is tried again.
const prepareRetry = 5 * time.Second

// Reporter is what the leader hands its records to. *clustercontrol.Sender implements it.
type Reporter interface {
	clustercontrol.Reporter
	// Run sends until ctx ends.
	Run(ctx context.Context)
	// Wait returns when what was handed over before is settled.
	Wait(ctx context.Context, endpoint clustercontrol.Endpoint) error
	// Flush writes the outbox to its disk.
	Flush() error
	// What an earlier term has left.
	UnsentRegistrations() []clustercontrol.ID
	UnsentStatuses() []clustercontrol.StatusRecord
	UnsentUsage() []clustercontrol.UsageRecord
	ForgetUsage(key string)
}

// LeaderConfig is what a Leader is made from. Every field is needed.
type LeaderConfig struct {
	// Cluster is --cluster-name.
	Cluster string
	// Namespace is the operator's own.
	Namespace string
	// Interval of metering.
	Interval time.Duration

	Scopes   []Scope
	Sampler  *Sampler
	Reporter Reporter
	// Poll asks for restart requests after a cursor and hands them to take, until ctx ends.
	Poll func(ctx context.Context, after int64, take clustercontrol.Take)
	// Restarts takes the requests.
	Restarts clustercontrol.Take

	Read  kubernetes.Interface
	Write kubernetes.Interface
	Clock clock.WithTicker
}

// Leader reports while this process leads.
type Leader struct {
	cluster   string
	namespace string
	interval  time.Duration
	scopes    scopes
	sampler   *Sampler
	reporter  Reporter
	poll      func(ctx context.Context, after int64, take clustercontrol.Take)
	restarts  clustercontrol.Take
	write     kubernetes.Interface
	clock     clock.WithTicker
	notes     *notebook
	registrar *registrar
	leading   chan struct{} // closed when Run begins
}

// NewLeader registers the reporters with their informers, which must not have started yet. It does nothing before Run.
func NewLeader(ctx context.Context, config LeaderConfig) (*Leader, error) {
	l := &Leader{
		cluster: config.Cluster, namespace: config.Namespace, interval: config.Interval, scopes: config.Scopes, sampler: config.Sampler,
		reporter: config.Reporter, poll: config.Poll, restarts: config.Restarts, write: config.Write, clock: config.Clock,
		notes:   &notebook{read: config.Read, write: config.Write, namespace: config.Namespace, clock: config.Clock},
		leading: make(chan struct{}),
	}
	l.registrar = newRegistrar(l)
	return l, l.registrar.watch(ctx)
}

// Name of the controller.
func (l *Leader) Name() string { return Name }

// Run reports until ctx ends. It is called once.
func (l *Leader) Run(ctx context.Context, _ int) error {
	close(l.leading)
	ctx = klog.NewContext(ctx, klog.LoggerWithName(klog.FromContext(ctx), Name))
	if !l.prepare(ctx) {
		return nil
	}
	m := &meter{Leader: l, handed: make(chan time.Time, 1), held: map[string]bool{}}
	var wg sync.WaitGroup
	for _, reporter := range []func(context.Context){l.reporter.Run, l.notes.run, l.beat, l.registrar.run, m.run, m.note, l.pollRestarts} {
		wg.Go(func() { reporter(ctx) })
	}
	wg.Wait()
	m.leave(ctx)
	return nil
}

// prepare does what comes before the first report, again until it works. False: ctx ended first.
func (l *Leader) prepare(ctx context.Context) bool {
	for said := false; ; {
		_, err := identity.Ensure(ctx, l.write, l.namespace)
		if err == nil {
			err = l.notes.open(ctx)
		}
		if err == nil {
			err = l.tidy()
		}
		if err == nil || ctx.Err() != nil {
			return ctx.Err() == nil
		}
		if !said {
			klog.FromContext(ctx).Error(err, "Nothing is reported to Cluster Control until this works; it is tried again")
			said = true
		}
		l.pause(ctx, prepareRetry)
	}
}

// tidy puts right what the outbox holds from an earlier term. What is there still is reported anew by whoever reports it.
func (l *Leader) tidy() error {
	nodes, err := l.nodes()
	if err != nil {
		return err
	}
	datastores, err := l.scopes.datastores()
	if err != nil {
		return err
	}
	here := map[clustercontrol.ID]bool{}
	for _, node := range nodes {
		here[clustercontrol.ID{Kind: clustercontrol.KindNode, ID: node.Name}] = true
	}
	for _, ds := range datastores {
		here[report.DatastoreID(ds)] = true
	}
	for _, id := range l.reporter.UnsentRegistrations() {
		if !here[id] && (id.Kind != clustercontrol.KindNode || nodes != nil) {
			l.reporter.Register(clustercontrol.Registration{Kind: id.Kind, ID: id.ID, Action: clustercontrol.ActionDeregister})
		}
	}
	for _, status := range l.reporter.UnsentStatuses() {
		if ws := l.scopes.workspace(cache.NewObjectName(status.Namespace, status.Workspace)); ws == nil || ws.UID != status.UID {
			l.reporter.Status(report.Gone(status))
		}
	}
	return nil
}

// pollRestarts asks for restart requests. The cursor is noted once every status holds what came before it.
func (l *Leader) pollRestarts(ctx context.Context) {
	l.poll(ctx, l.notes.get().RestartsAfter, func(ctx context.Context, batch clustercontrol.Batch) error {
		if err := l.restarts(ctx, batch); err != nil {
			return err
		}
		l.notes.note(ctx, func(n *Notes) { n.RestartsAfter = max(n.RestartsAfter, batch.Cursor) })
		return nil
	})
}

// Trusted registers everything anew: Cluster Control has refused it, and does not any more.
func (l *Leader) Trusted() { l.registrar.again() }

// Follow keeps a standby's samples small: what the leader has metered is not needed here any more. It returns when this process leads, or
// ctx ends.
func (l *Leader) Follow(ctx context.Context) {
	ticker := l.clock.NewTicker(max(l.interval, time.Minute))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
		case <-l.leading:
			return
		case <-ctx.Done():
			return
		}
		if notes, err := l.notes.look(ctx); err == nil { // else there is another time
			l.sampler.keep(notes.MeteredUntil)
		}
	}
}

func (l *Leader) pause(ctx context.Context, d time.Duration) {
	timer := l.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}
