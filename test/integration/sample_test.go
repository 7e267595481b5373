// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/test/servers"
)

// The main job on the seed's own objects, as a user would type them: what is missing is said, and when it is there the Workspace runs with the
// credentials of its datastores.
func TestSample(t *testing.T) {
	t.Parallel()
	s := given(t)
	postgres, redis := s.login(), s.redisURI()

	// when
	s.kubectl("apply", "-f", filepath.Join(root, "manifests/samples/bank-mandiri.yaml"))
	s.Cleanup(func() { s.deleteClass("premium") })
	bank := &tenant{scenario: s, name: "bank-mandiri-prod"}
	claim := &grant{scenario: s, name: "bank-pg-claim"}

	// then
	claim.denied(v1alpha1.ReasonInvalidSignature)
	(&store{scenario: s, name: "pg-bank-mandiri"}).failing(v1alpha1.ReasonSecretNotFound, "pg-bank-mandiri-creds")
	bank.failing(v1alpha1.ReasonInvalidSignature, `"pg-bank-mandiri" is denied`, `"valkey-shared" does not exist`)
	if err := bank.injectedNow(); err != nil {
		t.Error(err)
	}

	// when
	cloud := &owner{scenario: s, name: "cloud-owner", key: s.newKey()}
	cloud.publish(publicKey(cloud.key))
	s.Cleanup(func() { cloud.setEntry(nil) })
	s.secret("pg-bank-mandiri-creds", map[string]string{endpointKey: postgres.uri()})
	signed := claim.get()
	cloud.sign(signed)
	claim.patch(fmt.Sprintf(`{"spec":{"signature":%q}}`, signed.Spec.Signature))
	cloud.datastore("valkey-shared", v1alpha1.DriverValkey, redis)
	cloud.grant("valkey", "valkey-shared", bank.name)

	// then
	bank.ready()
	claim.approved()
	if err := bank.injectedNow(append(variables("pg-bank-mandiri", parts...),
		variables("valkey-shared", "DSN", "HOST", "PORT", "PASSWORD", "PERMISSION")...)...); err != nil {
		t.Error(err)
	}
	values, err := bank.environmentOf()
	s.must("read the environment", err)
	for end, want := range map[string]string{
		"HOST": "127.0.0.1", "PORT": strconv.Itoa(postgres.server.Port), "USER": postgres.user, "PASSWORD": postgres.password,
		"DATABASE": "app", "PERMISSION": "read-write",
	} {
		if have := values["FORMSPEC_DATASTORE_PG_BANK_MANDIRI_"+end]; have != want {
			t.Errorf("%s is %q, want %q", end, have, want)
		}
	}
	for _, name := range []string{"FORMSPEC_DATASTORE_PG_BANK_MANDIRI_DSN", "FORMA_DATASTORE_PG_BANK_MANDIRI_DSN"} {
		if err := s.connects(values[name], postgres.user); err != nil {
			t.Errorf("with %s, %v", name, err)
		}
	}
	bank.runsAsTheSampleSays()
}

// connects uses a connection string as apps do, and returns an error unless it logs in as the user.
func (s *scenario) connects(uri, user string) error {
	s.Helper()
	const query = "SELECT current_user"
	conn, err := pgconn.Connect(s.Context(), uri)
	if err != nil {
		return fmt.Errorf("a Go client does not connect: %w", err)
	}
	defer conn.Close(s.Context())
	result := conn.ExecParams(s.Context(), query, nil, nil, nil, nil).Read()
	out, err := servers.Psql(s, uri, query)
	if err := errors.Join(result.Err, err); err != nil {
		return fmt.Errorf("ask who is logged in: %w (psql says %s)", err, out)
	}
	if have := string(result.Rows[0][0]); have != user || out != user {
		return fmt.Errorf("a Go client is logged in as %s, psql as %s", have, out)
	}
	return nil
}

func (w *tenant) runsAsTheSampleSays() {
	w.Helper()
	w.rolledOut()
	w.within(time.Minute, "the pods of an earlier rollout are gone", func() error {
		if pods := w.pods(); len(pods) != 2 {
			return fmt.Errorf("there are %d pods, want 2", len(pods))
		}
		return nil
	})
	nodes := sets.New[string]()
	for _, pod := range w.pods() {
		nodes.Insert(pod.Spec.NodeName)
		if err := w.nodeHas(pod.Spec.NodeName, map[string]string{
			"formspec.dev/environment": "prod", "formspec.dev/region": "jakarta", "formspec.dev/tier": "enterprise",
		}); err != nil {
			w.Error(err)
		}
		if pod.Status.QOSClass != corev1.PodQOSGuaranteed {
			w.Errorf("pod %s is %s: stated resources are requests and limits", pod.Name, pod.Status.QOSClass)
		}
	}
	if len(nodes) != 2 {
		w.Errorf("both pods are on one node: %v", sets.List(nodes))
	}
	if ws := w.get(); ws.Status.ReadyReplicas != 2 || ws.Status.Phase != v1alpha1.PhaseReady {
		w.Errorf("the status has phase %s and %d ready replicas", ws.Status.Phase, ws.Status.ReadyReplicas)
	}
	if err := w.asRenderedBut("Deployment", "Secret"); err != nil {
		w.Error(err)
	}
	for _, k := range childKinds {
		if w.child(k) == nil {
			w.Errorf("there is no %s", k.kind)
		}
	}
}

func (s *scenario) nodeHas(name string, labels map[string]string) error {
	node, err := s.kube.CoreV1().Nodes().Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for label, value := range labels {
		if node.Labels[label] != value {
			return fmt.Errorf("a pod runs on node %s, whose label %s is %q, not %q", name, label, node.Labels[label], value)
		}
	}
	return nil
}
