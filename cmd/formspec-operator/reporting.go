// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	kubeinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	metricsclientset "k8s.io/metrics/pkg/client/clientset/versioned"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/clustercontrol"
	"github.com/formspec/formspec-operator/pkg/clustercontrol/identity"
	"github.com/formspec/formspec-operator/pkg/clustercontrol/metering"
	"github.com/formspec/formspec-operator/pkg/controllers"
	"github.com/formspec/formspec-operator/pkg/controllers/lead"
	"github.com/formspec/formspec-operator/pkg/controllers/reports"
	"github.com/formspec/formspec-operator/pkg/controllers/restarts"
	"github.com/formspec/formspec-operator/pkg/controllers/trim"
	"github.com/formspec/formspec-operator/pkg/controllers/worker"
	"github.com/formspec/formspec-operator/pkg/generated/clientset/versioned/scheme"
)

// reporting is all that there is only with --control-cluster-url. Nil: nothing is reported, watched or logged for it.
type reporting struct {
	nodes    kubeinformers.SharedInformerFactory
	identity *identity.Source
	desk     *restarts.Desk
	sender   *clustercontrol.Sender
	sampler  *reports.Sampler
	leader   *reports.Leader
	statuses *reports.Statuses
}

// newReporting returns nil without a URL. The channel goes through the fence: a process that lost the lease reports nothing.
func newReporting(ctx context.Context, d *dependencies, read clients, config *rest.Config, fence *lead.Fence) (*reporting, error) {
	o := d.options
	if o.controlClusterURL == "" {
		return nil, nil
	}
	r := &reporting{
		nodes:    kubeinformers.NewSharedInformerFactoryWithOptions(read.kube, 0, kubeinformers.WithTransform(trim.Node)),
		identity: identity.NewSource(read.kube, o.leaderElectNamespace),
		desk:     restarts.NewDesk(),
	}
	client, err := r.newClient(ctx, d, fence)
	if err != nil {
		return nil, err
	}
	if r.sender, err = newSender(ctx, client, o, r.trusted); err != nil {
		return nil, err
	}
	usage, err := newUsageClient(config)
	if err != nil {
		return nil, err
	}
	sampling, err := reports.NewMetrics(d.metrics)
	if err != nil {
		return nil, err
	}
	r.sampler, err = reports.NewSampler(reports.SamplerConfig{
		Scopes: d.reportScopes(), Nodes: r.nodes.Core().V1().Nodes(), Usage: usage, Interval: o.meteringInterval,
		Saver: r.saver(), Flush: r.sender.Flush, Clock: clock.RealClock{}, Metrics: sampling,
	})
	if err != nil {
		return nil, err
	}
	r.leader, err = reports.NewLeader(ctx, reports.LeaderConfig{
		Cluster: o.clusterName, Namespace: o.leaderElectNamespace, Interval: o.meteringInterval,
		Scopes: d.reportScopes(), Sampler: r.sampler, Reporter: r.sender,
		Poll: func(ctx context.Context, after int64, take clustercontrol.Take) {
			clustercontrol.NewPoller(client, after, take).Run(ctx)
		},
		Restarts: r.desk.Take,
		Read:     read.kube, Write: d.write.kube, Clock: clock.RealClock{},
	})
	return r, err
}

// newClient makes the channel. Whoever wants to know whether Cluster Control is there is told, by an Event on the lease, too.
func (r *reporting) newClient(ctx context.Context, d *dependencies, fence *lead.Fence) (*clustercontrol.Client, error) {
	o := d.options
	metrics, err := clustercontrol.NewMetrics(d.metrics)
	if err != nil {
		return nil, err
	}
	recorder := d.events.NewRecorder(scheme.Scheme, reports.Name)
	lease := &corev1.ObjectReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespace: o.leaderElectNamespace, Name: leaseName}
	return clustercontrol.NewClient(ctx, clustercontrol.Options{
		URL: o.controlClusterURL, AllowHTTP: o.dev, TLS: o.controlTLS, Identity: r.identity.Get, Metrics: metrics,
		Changed: func(reachable bool, reason string) {
			r.statuses.Reachable(reachable)
			tellReachable(recorder, lease, reachable, reason)
		},
		Dial: fence.WrapDial(newDialer().DialContext), Wrap: fence.WrapTransport,
	})
}

func tellReachable(recorder events.EventRecorder, lease *corev1.ObjectReference, reachable bool, reason string) {
	if reachable {
		recorder.Eventf(lease, nil, corev1.EventTypeNormal, v1alpha1.ReasonClusterControlReachable, "Report", "Cluster Control is reachable again: %s", reason)
		return
	}
	recorder.Eventf(lease, nil, corev1.EventTypeWarning, v1alpha1.ReasonClusterControlUnreachable, "Report",
		"Cluster Control is not reachable; reports wait, workspaces are not affected: %s", reason)
}

// newSender opens the outbox. One that cannot be used does not keep the operator from its work.
func newSender(ctx context.Context, client *clustercontrol.Client, o *options, trusted func()) (*clustercontrol.Sender, error) {
	options := clustercontrol.SenderOptions{Cluster: o.clusterName, OutboxDir: o.outboxDir, OutboxMaxBytes: o.outboxMaxBytes, Trusted: trusted}
	sender, err := clustercontrol.NewSender(ctx, client, options)
	if err == nil || o.outboxDir == "" {
		return sender, err
	}
	klog.FromContext(ctx).Error(err, "The outbox cannot be used: reports that wait are kept in memory, and are lost with this process", "dir", o.outboxDir)
	options.OutboxDir = ""
	return clustercontrol.NewSender(ctx, client, options)
}

// saver keeps samples in the outbox. Nil, as without one, they are in memory only.
func (r *reporting) saver() *metering.Saver {
	if !r.sender.Durable() {
		return nil
	}
	return metering.NewSaver(r.sender.SampledReadings(), r.sender.SampledLives())
}

// trusted tells anew what Cluster Control had refused.
func (r *reporting) trusted() {
	r.leader.Trusted()
	r.statuses.Trusted()
}

func newUsageClient(config *rest.Config) (metricsclientset.Interface, error) {
	usage := readConfig(config)
	usage.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := metricsclientset.NewForConfig(usage)
	if err != nil {
		return nil, fmt.Errorf("set up the client for metrics.k8s.io: %w", err)
	}
	return client, nil
}

// reportScopes are what is reported on.
func (d *dependencies) reportScopes() []reports.Scope {
	scopes := make([]reports.Scope, 0, len(d.scopes))
	for _, s := range d.scopes {
		own := s.formspec.Formspec().V1alpha1()
		scopes = append(scopes, reports.Scope{
			Namespace: s.namespace, Workspaces: own.Workspaces(), Datastores: own.Datastores(), Claims: own.ResourceClaims(),
			Deployments: s.children.Apps().V1().Deployments(), Pods: s.children.Core().V1().Pods(),
		})
	}
	return scopes
}

// controllers are those that report while this process leads.
func (r *reporting) controllers(ctx context.Context, d *dependencies, metrics *worker.Metrics) ([]controllers.Controller, error) {
	if r == nil {
		return nil, nil
	}
	statuses, err := reports.NewStatuses(ctx, reports.StatusesConfig{
		Scopes: d.reportScopes(), Reporter: r.sender, Clock: clock.RealClock{}, Metrics: metrics,
	})
	if err != nil {
		return nil, err
	}
	r.statuses = statuses
	return []controllers.Controller{r.leader, statuses}, nil
}

// restartDesk is nil without reporting.
func (r *reporting) restartDesk() *restarts.Desk {
	if r == nil {
		return nil
	}
	return r.desk
}

// watch starts what nobody waits for: the operator works without nodes, identity and usage.
func (r *reporting) watch(ctx context.Context) {
	if r == nil {
		return
	}
	r.nodes.StartWithContext(ctx)
	r.identity.Start(ctx)
}

// sample begins once the caches are full, on every replica.
func (r *reporting) sample(ctx context.Context) {
	if r == nil {
		return
	}
	go r.sampler.Run(ctx)
	go r.leader.Follow(ctx)
}

// close gives the outbox free.
func (r *reporting) close() {
	if r != nil {
		r.sender.Close()
	}
}
