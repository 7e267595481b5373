// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply_test

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/controllers/apply"
	"github.com/formspec/formspec-operator/pkg/reconcile"
)

var (
	shop   = cache.NewObjectName("bank", "shop")
	ledger = cache.NewObjectName("bank", "ledger")
)

// store is how far an informer has come.
type store struct{ seen string }

func (s *store) LastStoreSyncResourceVersion() string { return s.seen }

func TestAKeyIsStaleUntilTheCacheHasSeenItsWrites(t *testing.T) {
	for name, row := range map[string]struct {
		seen  string
		wrote []string
		stale bool
	}{
		"nothing was written":                         {"100", nil, false},
		"the cache is behind":                         {"100", []string{"101"}, true},
		"the cache has just seen it":                  {"101", []string{"101"}, false},
		"the cache is ahead":                          {"205", []string{"101"}, false},
		"versions are numbers, not text":              {"99", []string{"100"}, true},
		"one of two writes is not seen":               {"101", []string{"101", "102"}, true},
		"an informer that tells no version":           {"", []string{"101"}, false},
		"a write that got no version":                 {"100", []string{""}, false},
		"a version that cannot be compared is no bar": {"100", []string{"abc"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			memory := apply.NewMemory()
			for _, version := range row.wrote {
				memory.Wrote(shop, &store{row.seen}, version)
			}
			if got := memory.Stale(shop); got != row.stale {
				t.Errorf("stale: %v, want %v", got, row.stale)
			}
			if memory.Stale(ledger) {
				t.Error("another key is stale, too")
			}
		})
	}
}

func TestEveryInformerHasToSeeItsOwnWrites(t *testing.T) {
	memory, services, deployments := apply.NewMemory(), &store{"100"}, &store{"100"}
	memory.Wrote(shop, services, "101")
	memory.Wrote(shop, deployments, "102")
	services.seen = "300"
	if !memory.Stale(shop) {
		t.Error("not stale though one informer has not seen its write")
	}
	services.seen, deployments.seen = "100", "102" // what was seen before is forgotten
	if memory.Stale(shop) {
		t.Error("stale though both informers have seen their writes")
	}
	deployments.seen = "100"
	if memory.Stale(shop) {
		t.Error("stale for a write that was seen before")
	}
}

func TestAnEchoIsHeardOnce(t *testing.T) {
	memory, behind := apply.NewMemory(), &store{"100"}
	memory.Wrote(shop, behind, "101")
	memory.Wrote(shop, behind, "102")
	for _, step := range []struct {
		name    string
		key     cache.ObjectName
		version string
		want    bool
	}{
		{"what another key wrote", ledger, "101", false},
		{"what somebody else wrote", shop, "103", false},
		{"what the key wrote", shop, "102", true},
		{"the same again", shop, "102", false},
		{"what else the key wrote", shop, "101", true},
	} {
		if got := memory.Echo(step.key, step.version); got != step.want {
			t.Errorf("%s: echo %v, want %v", step.name, got, step.want)
		}
	}
	if memory.Stale(shop) {
		t.Error("stale though every write has been heard of")
	}
}

func TestAnEchoLeavesTheOtherWritesAlone(t *testing.T) {
	memory, behind := apply.NewMemory(), &store{"100"}
	memory.Wrote(shop, behind, "101")
	memory.Wrote(shop, behind, "102")
	memory.Echo(shop, "101")
	if !memory.Stale(shop) {
		t.Error("not stale though the second write has not been seen")
	}
}

func TestForget(t *testing.T) {
	memory, behind := apply.NewMemory(), &store{"100"}
	memory.Wrote(shop, behind, "101")
	memory.Wrote(ledger, behind, "102")
	memory.Forget(shop)
	if memory.Stale(shop) || memory.Echo(shop, "101") {
		t.Error("a forgotten key is remembered")
	}
	if !memory.Stale(ledger) {
		t.Error("another key was forgotten")
	}
}

func TestARewrittenWriteIsRememberedByChild(t *testing.T) {
	memory, at := apply.NewMemory(), time.Date(2026, 7, 10, 10, 0, 0, 0, time.UTC)
	asked, got := corev1ac.ConfigMap("shop", "bank").WithData(map[string]string{"a": "b"}), corev1ac.ConfigMap("shop", "bank").WithData(map[string]string{"a": "c"})
	memory.Rewrote(shop, asked.WithUID("uid").WithResourceVersion("7"), got, at)

	r := memory.Rewritten(shop, "ConfigMap", "shop")
	if r == nil || r.Asked != reconcile.Fingerprint(corev1ac.ConfigMap("shop", "bank").WithData(map[string]string{"a": "b"})) || r.Got != reconcile.Fingerprint(got) || !r.At.Equal(at) {
		t.Errorf("remembered %+v, want what was asked, whatever its preconditions, and what is left of it", r)
	}
	if memory.Rewritten(shop, "Service", "shop") != nil || memory.Rewritten(shop, "ConfigMap", "shop-2") != nil || memory.Rewritten(ledger, "ConfigMap", "shop") != nil {
		t.Error("another child is said to be rewritten")
	}
	memory.Rewrote(shop, asked, nil, at)
	if r := memory.Rewritten(shop, "ConfigMap", "shop"); r != nil {
		t.Errorf("remembered %+v though the next write arrived as it was sent", r)
	}

	memory.Rewrote(shop, asked, got, at)
	memory.Rewrote(ledger, asked, got, at)
	memory.Forget(shop)
	if memory.Rewritten(shop, "ConfigMap", "shop") != nil || memory.Rewritten(ledger, "ConfigMap", "shop") == nil {
		t.Error("forgetting a key must forget its children, and no others")
	}
}

// What is refused because a namespace is going is not asked for again, by the same object. What is there can be changed.
func TestNothingIsCreatedInANamespaceThatIsGoing(t *testing.T) {
	going := apierrors.NewForbidden(corev1.Resource("secrets"), "x", errors.New("it is being terminated"))
	going.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	m := apply.NewMemory()
	var answer error
	send := func(key cache.ObjectName, uid types.UID, create bool) (asked bool, err error) {
		_, err = m.Send(key, uid, reconcile.Write{Create: create}, func() (apply.Result, error) {
			asked = true
			return apply.Result{}, answer
		})
		return asked, err
	}
	for _, step := range []struct {
		what   string
		answer error
		key    cache.ObjectName
		uid    types.UID
		create bool
		asked  bool
		want   error
	}{
		{"another refusal", apierrors.NewForbidden(corev1.Resource("secrets"), "x", errors.New("a policy")), shop, "1", true, true, nil},
		{"the first try", going, shop, "1", true, true, going},
		{"the second", nil, shop, "1", true, false, going},
		{"a change", nil, shop, "1", false, true, nil},
		{"another object", nil, ledger, "1", true, true, nil},
		{"a successor of the name", nil, shop, "2", true, true, nil},
	} {
		answer = step.answer
		asked, err := send(step.key, step.uid, step.create)
		if step.want == nil {
			step.want = step.answer
		}
		if asked != step.asked || !errors.Is(err, step.want) {
			t.Errorf("%s: asked %t, error %v, want %t and %v", step.what, asked, err, step.asked, step.want)
		}
	}
	m.Forget(shop)
	answer = nil
	if asked, err := send(shop, "1", true); !asked || err != nil {
		t.Errorf("once forgotten: asked %t, error %v", asked, err)
	}
}
