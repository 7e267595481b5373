// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// How soon a refusal has to be told, and how soon a Workspace has to be Ready once its cause is gone.
const (
	toldWithin  = 30 * time.Second
	readyWithin = 60 * time.Second
)

// Whoever refuses something, the Workspace says so in their words, and recovers on its own. FR-30.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const notAllowed = "this namespace runs no servers"
	for name, row := range map[string]struct {
		cause  func(*scenario)
		class  func(*v1alpha1.ClusterClass)
		reason string
		texts  []string
		fix    func(s *scenario, class *v1alpha1.ClusterClass)
	}{
		"a quota of no pods": {
			cause:  quota("pods", "0"),
			reason: v1alpha1.ReasonQuotaExceeded,
			texts:  []string{"Raise the namespace's ResourceQuota", "exceeded quota: the-quota", "pods=0"},
			fix:    raise("pods", "10"),
		},
		"a quota of too little memory": {
			cause:  quota("requests.memory", "100Mi"),
			reason: v1alpha1.ReasonQuotaExceeded,
			texts:  []string{"exceeded quota: the-quota", "requests.memory"},
			fix:    raise("requests.memory", "10Gi"),
		},
		"a quota of what our pods do not state": {
			cause:  quota("limits.cpu", "10"),
			reason: v1alpha1.ReasonQuotaExceeded,
			texts:  []string{"failed quota: the-quota: must specify limits.cpu"},
			fix:    func(s *scenario, _ *v1alpha1.ClusterClass) { s.kubectl("delete", "quota", "the-quota") },
		},
		"a quota of no Deployments": {
			cause:  quota("count/deployments.apps", "0"),
			reason: v1alpha1.ReasonQuotaExceeded,
			texts:  []string{"exceeded quota: the-quota", "count/deployments.apps=0"},
			fix:    raise("count/deployments.apps", "10"),
		},
		"a policy against our Deployment": {
			cause:  (*scenario).denyDeployments,
			reason: v1alpha1.ReasonRefused,
			texts:  []string{"Change the policy", "ValidatingAdmissionPolicy", notAllowed},
			fix: func(s *scenario, _ *v1alpha1.ClusterClass) {
				s.kubectl("delete", "validatingadmissionpolicybinding", s.namespace)
			},
		},
		"a webhook that does not answer": {
			cause:  (*scenario).deadWebhook,
			reason: v1alpha1.ReasonRefused,
			texts:  []string{`the admission webhook "dead.example.com"`, "does not answer"},
			fix: func(s *scenario, _ *v1alpha1.ClusterClass) {
				s.kubectl("delete", "validatingwebhookconfiguration", s.namespace)
			},
		},
		"a LimitRange of less": {
			cause: func(s *scenario) {
				s.apply(`
apiVersion: v1
kind: LimitRange
metadata: {name: limits}
spec: {limits: [{type: Container, max: {memory: 128Mi}}]}
`)
			},
			reason: v1alpha1.ReasonRefused,
			texts:  []string{"maximum memory usage per Container is 128Mi"},
			fix:    func(s *scenario, _ *v1alpha1.ClusterClass) { s.kubectl("delete", "limitrange", "limits") },
		},
		"an image that crashes": {
			class:  func(c *v1alpha1.ClusterClass) { c.Spec.ResourceImage = "example.com/app:broken" },
			reason: v1alpha1.ReasonCrashLoopBackOff,
			texts:  []string{"ends again and again", "exit code 1", "--previous"},
			fix: func(s *scenario, class *v1alpha1.ClusterClass) {
				s.patchClass(class, `{"spec":{"resourceImage":"example.com/app:1"}}`)
			},
		},
		"an image that is not there": {
			class:  func(c *v1alpha1.ClusterClass) { c.Spec.ResourceImage = "example.com/app:missing" },
			reason: v1alpha1.ReasonImagePullBackOff,
			texts:  []string{`image "example.com/app:missing" cannot be pulled`, "not found"},
			fix: func(s *scenario, class *v1alpha1.ClusterClass) {
				s.patchClass(class, `{"spec":{"resourceImage":"example.com/app:1"}}`)
			},
		},
		"a label that no node has": {
			class:  func(c *v1alpha1.ClusterClass) { c.Spec.NodeType = v1alpha1.NodeTypeShared },
			reason: v1alpha1.ReasonUnschedulable,
			texts:  []string{"kubectl label node <node> formspec.dev/tier=shared"},
			fix: func(s *scenario, class *v1alpha1.ClusterClass) {
				s.patchClass(class, `{"spec":{"nodeType":"dedicated"}}`)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := given(t)
			if row.cause != nil {
				row.cause(s)
			}
			if row.class == nil {
				row.class = func(*v1alpha1.ClusterClass) {}
			}
			class := s.class(row.class)

			// when
			shop := s.workspace("shop", class)

			// then
			s.within(toldWithin, "the refusal is told", func() error { return failingNow(shop.get(), row.reason, row.texts...) })
			if err := otherwiseHonest(shop.get()); err != nil {
				t.Error(err)
			}

			// when
			generation := shop.get().Generation
			row.fix(s, class)

			// then
			s.within(readyWithin, "the Workspace is Ready without being touched", func() error { return readyNow(shop.get()) })
			if ws := shop.get(); ws.Generation != generation || meta.FindStatusCondition(ws.Status.Conditions, v1alpha1.ConditionStalled) != nil {
				t.Errorf("the Workspace is of generation %d, was %d, and has conditions %+v", ws.Generation, generation, ws.Status.Conditions)
			}
		})
	}
}

// otherwiseHonest returns an error if anything claims that the refused Workspace is well.
func otherwiseHonest(ws *v1alpha1.Workspace) error {
	if ws.Status.Phase == v1alpha1.PhaseReady || ws.Status.ReadyReplicas != 0 {
		return fmt.Errorf("a refused Workspace has the phase %s and %d ready replicas", ws.Status.Phase, ws.Status.ReadyReplicas)
	}
	return nil
}

func quota(resource, limit string) func(*scenario) {
	return func(s *scenario) {
		s.kubectl("create", "quota", "the-quota", "--hard="+resource+"="+limit)
		s.eventually("the quota is in force", func() error {
			if out := s.kubectl("get", "quota", "the-quota", "-o", "jsonpath={.status.hard}"); !strings.Contains(out, resource) {
				return fmt.Errorf("its status is %q", out)
			}
			return nil
		})
	}
}

func raise(resource, limit string) func(*scenario, *v1alpha1.ClusterClass) {
	return func(s *scenario, _ *v1alpha1.ClusterClass) {
		s.kubectl("patch", "quota", "the-quota", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"hard":{%q:%q}}}`, resource, limit))
	}
}

// denyDeployments lets a policy refuse all Deployments of the namespace.
func (s *scenario) denyDeployments() {
	s.Helper()
	s.policy(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: NAMESPACE}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}
  validations:
  - {expression: "false", message: this namespace runs no servers}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: NAMESPACE}
spec:
  policyName: NAMESPACE
  validationActions: [Deny]
  matchResources:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
`, "validatingadmissionpolicy,validatingadmissionpolicybinding", probeDeployment, func(_ string, err error) bool { return err != nil })
}

// deadWebhook lets a webhook be asked about all Deployments of the namespace that is not there.
func (s *scenario) deadWebhook() {
	s.Helper()
	s.policy(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: NAMESPACE}
webhooks:
- name: dead.example.com
  clientConfig: {url: "https://127.0.0.1:1/"}
  rules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
`, "validatingwebhookconfiguration", probeDeployment, func(_ string, err error) bool { return err != nil })
}

// apply applies documents in the scenario's namespace.
func (s *scenario) apply(documents string) {
	s.Helper()
	_, err := s.cluster.kubectlWith(s.Context(), documents, "-n", s.namespace, "apply", "-f", "-")
	s.must("apply", err)
}

// policy applies admission policies named after the namespace, in which NAMESPACE stands for that, and waits until they are in force: until
// a server-side dry run of the probe comes out as it should.
func (s *scenario) policy(documents, kinds, probe string, inForce func(out string, err error) bool) {
	s.Helper()
	apply := func(stdin string, args ...string) (string, error) {
		return s.cluster.kubectlWith(s.Context(), stdin, append([]string{"-n", s.namespace}, args...)...)
	}
	s.Cleanup(func() { _, _ = s.cluster.kubectl(contextBeyond(s), "delete", "--ignore-not-found", kinds, s.namespace) })
	_, err := apply(strings.ReplaceAll(documents, "NAMESPACE", s.namespace), "apply", "-f", "-")
	s.must("apply the policy", err)
	s.eventually("the policy is in force", func() error {
		out, err := apply(probe, "create", "--dry-run=server", "-o", "json", "-f", "-")
		if inForce(out, err) {
			return nil
		}
		return fmt.Errorf("the probe comes out as %s %w", out, err)
	})
}

// What asks for no more than our pods have does not refuse them: the namespace is restricted, and its quota wants requests.
func TestDemandsThatAreMet(t *testing.T) {
	t.Parallel()
	s := given(t)
	s.kubectl("create", "quota", "the-quota", "--hard=requests.memory=1Gi,requests.cpu=2,limits.memory=2Gi,pods=3")
	shop := s.workspace("shop", s.class(func(c *v1alpha1.ClusterClass) { c.Spec.Scaling.MinReplicas = 2 }))
	s.within(readyWithin, "the Workspace is Ready", func() error { return readyNow(shop.get()) })
	namespace, err := s.kube.CoreV1().Namespaces().Get(s.Context(), s.namespace, metav1.GetOptions{})
	s.must("get the namespace", err)
	if level := namespace.Labels["pod-security.kubernetes.io/enforce"]; level != "restricted" {
		t.Errorf("the namespace enforces %q: this test shows nothing", level)
	}
}

// An autoscaler that cannot see any use is told, and costs nobody their Ready.
func TestAutoscalingWithoutMetrics(t *testing.T) {
	t.Parallel()
	s := given(t)
	shop := s.workspace("shop", s.class(full)).ready()
	s.eventually("the condition says that autoscaling does not work", func() error {
		return condition(shop.get(), v1alpha1.ConditionAutoscalingActive, metav1.ConditionFalse, "FailedGetResourceMetric", "autoscaling does not work", "keeps its replicas")
	})
	if err := readyNow(shop.get()); err != nil {
		t.Error(err)
	}
	if pods := shop.pods(); len(pods) != 2 {
		t.Errorf("there are %d pods, want the minimum of 2", len(pods))
	}

	// when it is no longer asked for
	s.patchClass(&v1alpha1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Name: shop.get().Spec.ClusterClass}}, `{"spec":{"features":[]}}`)

	// then
	s.eventually("the condition is gone", func() error {
		if c := meta.FindStatusCondition(shop.get().Status.Conditions, v1alpha1.ConditionAutoscalingActive); c != nil {
			return fmt.Errorf("it is %s %s", c.Status, c.Reason)
		}
		return readyNow(shop.get())
	})
}
