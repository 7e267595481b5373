// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/clustercontrol"
	"github.com/formspec/formspec-operator/pkg/clustercontrol/metering"
	"github.com/formspec/formspec-operator/pkg/clustercontrol/outbox"
	"github.com/formspec/formspec-operator/pkg/controllers/lead"
	"github.com/formspec/formspec-operator/pkg/reconcile/image"
	"github.com/formspec/formspec-operator/pkg/reconcile/resourceclaim"
	"github.com/formspec/formspec-operator/pkg/reconcile/workspace"
)

// defaultResourceImage is the generic image that all apps run in.
const defaultResourceImage = "formahub/formspec-resource:1.4.2"

// scaleToZeroModes are the values of --scale-to-zero.
var scaleToZeroModes = []workspace.Mode{workspace.ModeActivator, workspace.ModeKEDA, workspace.ModeOff}

// options are the flags of run. A value that is complete and valid comes from newOptions, addFlags, complete and validate.
type options struct {
	kubeconfig   string
	kubeAPIQPS   float32
	kubeAPIBurst int

	controlClusterURL          string
	workspaceControlClusterURL string
	clusterName                string
	controlTLS                 clustercontrol.TLSFiles
	outboxDir                  string
	outboxMaxBytes             int64
	meteringInterval           time.Duration

	leaderElect          bool
	leaderElectTiming    lead.Timing
	leaderElectNamespace string

	serving serving

	workspaceConcurrency int
	namespaces           []string // empty: all
	resourceImage        string
	minGrantVersion      int32
	trustDatastoreKeys   bool
	skipSignatureVerify  bool
	idleAfter            time.Duration
	wakeDeadline         time.Duration
	scaleToZero          string
	shutdownTimeout      time.Duration
	dev                  bool

	withKEDA bool // no flag: the cluster has KEDA's HTTPScaledObject
}

func newOptions() *options {
	return &options{
		kubeAPIQPS:           -1,
		outboxMaxBytes:       outbox.DefaultMaxBytes,
		meteringInterval:     5 * time.Minute,
		leaderElectTiming:    lead.Timing{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second},
		serving:              newServing(),
		workspaceConcurrency: 10,
		resourceImage:        defaultResourceImage,
		minGrantVersion:      v1alpha1.GrantVersion1,
		trustDatastoreKeys:   true,
		idleAfter:            5 * time.Minute,
		wakeDeadline:         time.Minute,
		scaleToZero:          string(workspace.ModeActivator),
		shutdownTimeout:      30 * time.Second,
	}
}

func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig, "Path of a kubeconfig. Empty: the cluster this runs in, else $KUBECONFIG, else ~/.kube/config.")
	fs.Float32Var(&o.kubeAPIQPS, "kube-api-qps", o.kubeAPIQPS, "Requests per second to the API server. Zero or less: no limit here, the API server's own priority and fairness decides.")
	fs.IntVar(&o.kubeAPIBurst, "kube-api-burst", o.kubeAPIBurst, "Requests that may exceed --kube-api-qps for a moment. Zero: twice that rate.")

	fs.StringVar(&o.controlClusterURL, "control-cluster-url", o.controlClusterURL, "URL of the Control Cluster that this operator reports to. Empty: it reports to none.")
	fs.StringVar(&o.workspaceControlClusterURL, "workspace-control-cluster-url", o.workspaceControlClusterURL, "URL of the Control Cluster that workspaces are given. Empty: that of --control-cluster-url.")
	fs.StringVar(&o.clusterName, "cluster-name", o.clusterName, "Name of this cluster at the Control Cluster. Required together with its URL.")

	fs.StringVar(&o.controlTLS.CA, "control-ca-file", o.controlTLS.CA, "Authorities that may sign the Control Cluster's certificate, read again when they change. Empty: those of the system.")
	fs.StringVar(&o.controlTLS.Cert, "control-client-cert-file", o.controlTLS.Cert, "Client certificate for the Control Cluster, read again when it changes. Empty: none.")
	fs.StringVar(&o.controlTLS.Key, "control-client-key-file", o.controlTLS.Key, "Private key of --control-client-cert-file.")
	fs.StringVar(&o.outboxDir, "outbox-dir", o.outboxDir, "Directory, of this replica alone, that keeps reports which could not be sent, and what was sampled of usage. Empty: both are lost when the process ends.")
	fs.Int64Var(&o.outboxMaxBytes, "outbox-max-bytes", o.outboxMaxBytes, "Size that the files in --outbox-dir may have together. When it is reached the oldest usage gives way.")
	fs.DurationVar(&o.meteringInterval, "metering-interval", o.meteringInterval, "Length of the slots, aligned to UTC, for which usage is reported to the Control Cluster. The same for all replicas.")

	fs.BoolVar(&o.leaderElect, "leader-elect", o.leaderElect, "Act only while holding a lease, so that several replicas can run.")
	fs.DurationVar(&o.leaderElectTiming.LeaseDuration, "leader-elect-lease-duration", o.leaderElectTiming.LeaseDuration, "How long a standby waits after the last renewal that it saw before it takes the lease.")
	fs.DurationVar(&o.leaderElectTiming.RenewDeadline, "leader-elect-renew-deadline", o.leaderElectTiming.RenewDeadline, "How long the leader tries to renew before it stops.")
	fs.DurationVar(&o.leaderElectTiming.RetryPeriod, "leader-elect-retry-period", o.leaderElectTiming.RetryPeriod, "Time between two tries to acquire or renew the lease.")
	fs.StringVar(&o.leaderElectNamespace, "leader-elect-namespace", o.leaderElectNamespace, "Namespace of the lease. Empty: the namespace of this pod, else "+defaultNamespace+".")

	o.serving.addFlags(fs)

	fs.IntVar(&o.workspaceConcurrency, "workspace-concurrency", o.workspaceConcurrency, "Number of workspaces that are worked on at the same time.")
	fs.StringSliceVar(&o.namespaces, "namespace", o.namespaces, "Comma-separated namespaces to work in. Empty: all.")
	fs.StringVar(&o.resourceImage, "resource-image", o.resourceImage, "Image of the workspaces' pods: a tag other than latest, or a digest.")
	fs.Int32Var(&o.minGrantVersion, "min-grant-version", o.minGrantVersion, "Lowest version of grants that is accepted: 1, or 2, which binds a grant to this cluster and a namespace.")
	fs.BoolVar(&o.trustDatastoreKeys, "trust-datastore-keys", o.trustDatastoreKeys, "Accept the ownerPublicKey of a Datastore for an owner without published keys.")
	fs.BoolVar(&o.skipSignatureVerify, "insecure-skip-signature-verify", o.skipSignatureVerify, "Approve claims without a look at their signature. For development only.")
	fs.DurationVar(&o.idleAfter, "idle-after", o.idleAfter, "Time without traffic after which a workspace that may scale to zero sleeps, where its class does not say.")
	fs.DurationVar(&o.wakeDeadline, "wake-deadline", o.wakeDeadline, "How long a woken workspace may take to become ready before that is called a failure.")
	fs.StringVar(&o.scaleToZero, "scale-to-zero", o.scaleToZero, "Who lets idle workspaces of scaleToZero classes sleep and wakes them: activator, keda-http (the KEDA HTTP add-on), or off.")
	fs.DurationVar(&o.shutdownTimeout, "shutdown-timeout", o.shutdownTimeout, "How long started work may take to finish after a signal.")
	fs.BoolVar(&o.dev, "dev", o.dev, "Allow what is insecure and meant for development: http:// URLs and a resource image that is not pinned.")
}

// insecure names the options that are on and make the operator insecure.
func (o *options) insecure() []string {
	var names []string
	if o.dev {
		names = append(names, "dev")
	}
	if o.skipSignatureVerify {
		names = append(names, "insecure-skip-signature-verify")
	}
	return names
}

// complete fills in what other flags and the surroundings decide.
func (o *options) complete(ownNamespace string) {
	if o.kubeAPIQPS <= 0 {
		o.kubeAPIQPS = -1
	}
	if o.kubeAPIBurst == 0 {
		o.kubeAPIBurst = max(1, int(2*o.kubeAPIQPS))
	}
	o.workspaceControlClusterURL = cmp.Or(o.workspaceControlClusterURL, o.controlClusterURL)
	o.leaderElectNamespace = cmp.Or(o.leaderElectNamespace, ownNamespace)
	namespaces := sets.New[string]()
	for _, namespace := range o.namespaces {
		if namespace = strings.TrimSpace(namespace); namespace != "" {
			namespaces.Insert(namespace)
		}
	}
	o.namespaces = sets.List(namespaces)
}

// validate returns every mistake at once, each with the flag to change.
func (o *options) validate() error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if o.kubeAPIBurst < 0 {
		refuse("--kube-api-burst: must not be negative, is %d", o.kubeAPIBurst)
	}
	if err := o.checkURL(o.controlClusterURL); err != nil {
		refuse("--control-cluster-url: %w", err)
	}
	if o.workspaceControlClusterURL != o.controlClusterURL { // else it is named above
		if err := o.checkURL(o.workspaceControlClusterURL); err != nil {
			refuse("--workspace-control-cluster-url: %w", err)
		}
	}
	if o.clusterName == "" && (o.controlClusterURL != "" || o.workspaceControlClusterURL != "") {
		refuse("--cluster-name: required together with a Control Cluster URL")
	}
	if (o.controlTLS.Cert == "") != (o.controlTLS.Key == "") {
		refuse("--control-client-cert-file and --control-client-key-file: each needs the other")
	}
	if o.outboxMaxBytes < outbox.MinMaxBytes {
		refuse("--outbox-max-bytes: must be at least %d, is %d", outbox.MinMaxBytes, o.outboxMaxBytes)
	}
	if err := metering.CheckInterval(o.meteringInterval); err != nil {
		refuse("--metering-interval: %w", err)
	} else if o.meteringInterval > time.Hour { // what is sampled of a slot is kept in memory until the slot is over
		refuse("--metering-interval: must be at most 1h, is %s", o.meteringInterval)
	}
	if o.leaderElect {
		if err := o.leaderElectTiming.Validate(); err != nil {
			refuse("--leader-elect-*: %w", err)
		}
	}
	o.serving.validate(refuse)
	if o.workspaceConcurrency < 1 {
		refuse("--workspace-concurrency: must be at least 1, is %d", o.workspaceConcurrency)
	}
	for _, namespace := range o.namespaces {
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			refuse("--namespace: %q is no name of a namespace: %s", namespace, strings.Join(problems, ", "))
		}
	}
	if !o.dev && !image.Pinned(o.resourceImage) {
		refuse("--resource-image: %q is not pinned: give it a tag other than latest or a digest, or set --dev", o.resourceImage)
	}
	if o.minGrantVersion != v1alpha1.GrantVersion1 && o.minGrantVersion != v1alpha1.GrantVersion2 {
		refuse("--min-grant-version: must be 1 or 2, is %d", o.minGrantVersion)
	}
	if o.minGrantVersion == v1alpha1.GrantVersion2 && o.clusterName == "" {
		refuse("--cluster-name: required with --min-grant-version=2, which binds grants to it")
	}
	if o.idleAfter <= 0 {
		refuse("--idle-after: must be positive, is %s", o.idleAfter)
	}
	if o.wakeDeadline <= 0 {
		refuse("--wake-deadline: must be positive, is %s", o.wakeDeadline)
	}
	if !slices.Contains(scaleToZeroModes, workspace.Mode(o.scaleToZero)) {
		refuse("--scale-to-zero: must be activator, keda-http or off, is %q", o.scaleToZero)
	}
	if o.shutdownTimeout <= 0 {
		refuse("--shutdown-timeout: must be positive, is %s", o.shutdownTimeout)
	}
	return errors.Join(errs...)
}

func (o *options) checkURL(value string) error {
	if value == "" {
		return nil
	}
	u, err := url.Parse(value)
	switch {
	case err != nil:
		return fmt.Errorf("parse: %w", err)
	case u.Scheme != "https" && u.Scheme != "http", u.Host == "":
		return fmt.Errorf("%q must be an https:// URL with a host", value)
	case u.User != nil:
		return errors.New("must not contain credentials")
	case u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("%q must have neither query nor fragment", value)
	case u.Scheme == "http" && !o.dev:
		return fmt.Errorf("%q is not encrypted: use https://, or set --dev", value)
	}
	return nil
}

// workspaceSettings are the flags that shape the children of Workspaces, and whether the cluster has KEDA's HTTPScaledObject.
func (o *options) workspaceSettings() workspace.Settings {
	return workspace.Settings{
		ClusterName:   o.clusterName,
		ControlURL:    o.workspaceControlClusterURL,
		Image:         o.resourceImage,
		AllowUnpinned: o.dev,
		ScaleToZero:   workspace.Mode(o.scaleToZero),
		KEDAInstalled: o.withKEDA,
		IdleAfter:     o.idleAfter,
		WakeDeadline:  o.wakeDeadline,
	}
}

// grantSettings are the flags that decide on claims.
func (o *options) grantSettings() resourceclaim.Settings {
	return resourceclaim.Settings{
		ClusterName:        o.clusterName,
		MinGrantVersion:    o.minGrantVersion,
		TrustDatastoreKeys: o.trustDatastoreKeys,
		InsecureSkipVerify: o.skipSignatureVerify,
	}
}
