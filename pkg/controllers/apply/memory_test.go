// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package apply_test

import (
	"testing"

	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/controllers/apply"
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
	deployments.seen = "102"
	if memory.Stale(shop) {
		t.Error("stale though both informers have seen their writes")
	}
	deployments.seen = "100" // a write that was seen is forgotten
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
