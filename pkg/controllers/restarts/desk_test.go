// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restarts_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/formspec/formspec-operator/pkg/clustercontrol"
	"github.com/formspec/formspec-operator/pkg/controllers/restarts"
)

// loop is one of Workspaces, which it has by key. It is told, and does nothing.
type loop map[cache.ObjectName]int

func (l loop) RestartRequested(key cache.ObjectName) bool {
	_, has := l[key]
	if has {
		l[key]++
	}
	return has
}

var (
	web = cache.NewObjectName("bank", "web")
	api = cache.NewObjectName("bank", "api")
)

func batch(cursor int64, items ...clustercontrol.RestartRequest) clustercontrol.Batch {
	return clustercontrol.Batch{Cursor: cursor, Items: items}
}

func request(key cache.ObjectName, hash string) clustercontrol.RestartRequest {
	return clustercontrol.RestartRequest{Namespace: key.Namespace, Workspace: key.Name, BinaryHash: hash, Version: "v"}
}

// take hands a batch over in the background.
func take(ctx context.Context, desk *restarts.Desk, b clustercontrol.Batch) (done chan error) {
	done = make(chan error, 1)
	go func() { done <- desk.Take(ctx, b) }()
	synctest.Wait()
	return done
}

// ended is what Take returned, or an error if it goes on.
func ended(done chan error) error {
	synctest.Wait()
	select {
	case err := <-done:
		return err
	default:
		return errors.New("it goes on")
	}
}

func TestTakeEndsWhenStatusesHoldTheRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		desk, l := restarts.NewDesk(), loop{web: 0, api: 0}
		desk.Subscribe(l)
		gone := cache.NewObjectName("bank", "gone")
		done := take(t.Context(), desk, batch(7, request(web, "old"), request(api, "a"), request(gone, "a"), request(web, "new")))
		if r := desk.Newest(web); r == nil || r.Hash != "new" || r.Cursor != 7 || r.Version != "v" {
			t.Errorf("waiting: %+v", r)
		}
		if desk.Newest(gone) != nil || l[web] != 1 || l[api] != 1 {
			t.Errorf("who is not here: %+v; woken: %v", desk.Newest(gone), l)
		}
		desk.Recorded(web, 6) // an older one
		desk.Recorded(api, 7)
		if err := ended(done); err == nil || desk.Newest(web) == nil || desk.Newest(api) != nil {
			t.Errorf("with one left: %v, %+v, %+v", err, desk.Newest(web), desk.Newest(api))
		}
		desk.Recorded(web, 7)
		if err := ended(done); err != nil {
			t.Errorf("with none left: %v", err)
		}
	})
}

func TestTakeEndsWhenAWorkspaceGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		desk := restarts.NewDesk()
		desk.Subscribe(loop{web: 0})
		done := take(t.Context(), desk, batch(1, request(web, "a")))
		desk.Gone(web)
		if err := ended(done); err != nil || desk.Newest(web) != nil {
			t.Errorf("%v, %+v", err, desk.Newest(web))
		}
	})
}

// What cannot be recorded is asked for again, and waits meanwhile.
func TestTakeHasPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		desk := restarts.NewDesk()
		desk.Subscribe(loop{web: 0})
		done := take(t.Context(), desk, batch(1, request(web, "a")))
		time.Sleep(time.Minute) //nolint:forbidigo // in a bubble
		if err := ended(done); !errors.Is(err, context.DeadlineExceeded) || desk.Newest(web) == nil {
			t.Errorf("%v, %+v", err, desk.Newest(web))
		}
		done = take(t.Context(), desk, batch(2, request(web, "b")))
		desk.Recorded(web, 1) // that came late
		if err := ended(done); err == nil || desk.Newest(web).Hash != "b" {
			t.Errorf("%v, %+v", err, desk.Newest(web))
		}
		desk.Recorded(web, 2)
		if err := ended(done); err != nil {
			t.Error(err)
		}
	})
}

func TestOlderRequestDoesNotReplaceANewerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		desk := restarts.NewDesk()
		desk.Subscribe(loop{web: 0})
		newer := take(t.Context(), desk, batch(2, request(web, "b")))
		if err := ended(take(t.Context(), desk, batch(1, request(web, "a")))); err != nil {
			t.Errorf("the older: %v", err)
		}
		if r := desk.Newest(web); r == nil || r.Hash != "b" {
			t.Errorf("waiting: %+v", r)
		}
		desk.Recorded(web, 2)
		if err := ended(newer); err != nil {
			t.Error(err)
		}
	})
}

// A cursor of 0 in a status means that there was no request.
func TestRequestsWithoutACursorAreLeftOut(t *testing.T) {
	desk := restarts.NewDesk()
	desk.Subscribe(loop{web: 0})
	if err := desk.Take(t.Context(), batch(0, request(web, "a"))); err != nil || desk.Newest(web) != nil {
		t.Errorf("%v, %+v", err, desk.Newest(web))
	}
}

func TestNoDesk(t *testing.T) {
	var desk *restarts.Desk
	desk.Subscribe(loop{})
	desk.Recorded(web, 1)
	desk.Gone(web)
	if desk.Newest(web) != nil {
		t.Error("it has a request")
	}
}
