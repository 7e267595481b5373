// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

var (
	shop   = cache.NewObjectName("bank", "shop")
	ledger = cache.NewObjectName("bank", "ledger")

	workspaces      = schema.GroupResource{Group: "formspec.dev", Resource: "workspaces"}
	errConflict     = apierrors.NewConflict(workspaces, "shop", errors.New("changed"))
	errExists       = apierrors.NewAlreadyExists(workspaces, "shop")
	errTerminating  = terminatingNamespace()
	errOrdinary     = errors.New("connection refused")
	errForbidden    = apierrors.NewForbidden(workspaces, "shop", errors.New("no"))
	errNotFoundKind = apierrors.NewNotFound(workspaces, "shop")
)

// terminatingNamespace is how the API server refuses a creation in a namespace that is going.
func terminatingNamespace() error {
	err := apierrors.NewForbidden(workspaces, "shop", errors.New("because it is being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return err
}

// recordErrors collects what is logged as an error, instead of the default handlers, whose pause goes by the wall clock.
func recordErrors(t *testing.T) func() []string {
	t.Helper()
	var mu sync.Mutex
	var logged []string
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{func(_ context.Context, err error, msg string, _ ...any) {
		mu.Lock()
		defer mu.Unlock()
		logged = append(logged, msg+": "+err.Error())
	}}
	t.Cleanup(func() { utilruntime.ErrorHandlers = handlers })
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(logged)
	}
}

// start runs a worker until the test ends, or stop is called, which returns when Run has.
func start(t *testing.T, w *Worker, workers int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	if w.Name == "" {
		w.Name = "test"
	}
	if w.Queue == nil {
		w.Queue = NewQueue(w.Name, clock.RealClock{})
	}
	w.Clock = clock.RealClock{}
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx, workers) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v, want nil after a shutdown", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// pass lets time go by, on the clock of a synctest bubble, until all is quiet.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestOutcomes(t *testing.T) {
	const never = time.Duration(-1)
	for name, row := range map[string]struct {
		after   time.Duration
		err     error
		panics  bool
		again   time.Duration // when the key is looked at again, at the earliest
		jitter  time.Duration // and how much later at the most
		failure bool          // it counts as a failure, so that the next one waits longer
		logged  bool          // as an error
	}{
		"success":                            {again: never},
		"success with a time to look again":  {after: 10 * time.Second, again: 10 * time.Second},
		"a cache that is behind":             {err: ErrStale, again: 100 * time.Millisecond},
		"a cache that is behind, wrapped":    {err: fmt.Errorf("sync: %w", ErrStale), again: 100 * time.Millisecond},
		"a conflict":                         {err: fmt.Errorf("update: %w", errConflict), again: baseDelay, jitter: baseDelay / 10, failure: true},
		"a name that exists":                 {err: fmt.Errorf("create: %w", errExists), again: baseDelay, jitter: baseDelay / 10, failure: true},
		"a namespace that is going":          {err: fmt.Errorf("apply: %w", errTerminating), again: never},
		"a user must act":                    {err: Terminal(errOrdinary), again: never},
		"a user must act, wrapped":           {err: fmt.Errorf("sync: %w", Terminal(errOrdinary)), again: never},
		"a user must act, and nobody tells":  {err: Terminal(errForbidden), after: 30 * time.Second, again: 30 * time.Second},
		"a user must act on a conflict":      {err: Terminal(errConflict), again: never},
		"a panic":                            {panics: true, again: baseDelay, jitter: baseDelay / 10, failure: true, logged: true},
		"any other error":                    {err: errOrdinary, again: baseDelay, jitter: baseDelay / 10, failure: true, logged: true},
		"an error with a time to look again": {err: errOrdinary, after: time.Hour, again: baseDelay, jitter: baseDelay / 10, failure: true, logged: true},
		"a refusal that nobody marked":       {err: errForbidden, again: baseDelay, jitter: baseDelay / 10, failure: true, logged: true},
	} {
		t.Run(name, func(t *testing.T) {
			logged := recordErrors(t)
			synctest.Test(t, func(t *testing.T) {
				var calls []time.Time
				var failures int
				w := &Worker{}
				w.Sync = func(context.Context, cache.ObjectName) (time.Duration, error) {
					if calls = append(calls, time.Now()); len(calls) > 1 {
						failures = w.Queue.NumRequeues(shop)
						return 0, nil
					}
					if row.panics {
						panic("nil map")
					}
					return row.after, row.err
				}
				stop := start(t, w, 1)
				w.Queue.Add(shop)
				pass(2 * time.Hour)
				if left := w.Queue.NumRequeues(shop); left != 0 {
					t.Errorf("%d failures are remembered after the key was settled, want none", left)
				}
				stop()

				switch again := row.again; {
				case again == never && len(calls) != 1:
					t.Errorf("looked at %d times, want once", len(calls))
				case again != never && len(calls) != 2:
					t.Errorf("looked at %d times, want twice", len(calls))
				case again != never:
					if waited := calls[1].Sub(calls[0]); waited < again || waited > again+row.jitter {
						t.Errorf("looked at again after %s, want %s to %s", waited, again, again+row.jitter)
					}
				}
				if counted := failures > 0; counted != row.failure {
					t.Errorf("counted as a failure: %v, want %v", counted, row.failure)
				}
				if got := logged(); (len(got) == 1) != row.logged || len(got) > 1 {
					t.Errorf("logged as errors: %q, want one: %v", got, row.logged)
				}
			})
		})
	}
}

func TestAPanicIsContained(t *testing.T) {
	logged := recordErrors(t)
	synctest.Test(t, func(t *testing.T) {
		var crashed, synced []cache.ObjectName
		w := &Worker{
			Sync: func(_ context.Context, key cache.ObjectName) (time.Duration, error) {
				if synced = append(synced, key); key == shop && len(synced) == 1 {
					panic("nil map")
				}
				return 0, nil
			},
			Crashed: func(_ context.Context, key cache.ObjectName) { crashed = append(crashed, key) },
		}
		stop := start(t, w, 1)
		w.Queue.Add(shop)
		synctest.Wait()
		w.Queue.Add(ledger)
		pass(time.Minute)
		stop()
		if want := []cache.ObjectName{shop, ledger, shop}; !slices.Equal(synced, want) {
			t.Errorf("synced %v, want %v", synced, want)
		}
		if want := []cache.ObjectName{shop}; !slices.Equal(crashed, want) {
			t.Errorf("the panic was shown on %v, want %v", crashed, want)
		}
		if got := strings.Join(logged(), "\n"); !strings.Contains(got, "panic: nil map") || !strings.Contains(got, "worker_test.go") {
			t.Errorf("logged %s, want the panic with its stack", got)
		}
	})
}

func TestShowingAPanicMayPanicToo(t *testing.T) {
	recordErrors(t)
	synctest.Test(t, func(t *testing.T) {
		syncs := 0
		w := &Worker{
			Sync: func(context.Context, cache.ObjectName) (time.Duration, error) {
				if syncs++; syncs == 1 {
					panic("first")
				}
				return 0, nil
			},
			Crashed: func(context.Context, cache.ObjectName) { panic("second") },
		}
		stop := start(t, w, 1)
		w.Queue.Add(shop)
		pass(time.Minute)
		stop()
		if syncs != 2 {
			t.Errorf("looked at %d times, want twice: the worker goes on", syncs)
		}
	})
}
