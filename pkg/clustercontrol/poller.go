// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"
)

// PollInterval is how often deploy-status is asked for while it answers. Source: contract §5.5.
const PollInterval = 10 * time.Second

// Take is handed the restart requests of one answer. Once it returns nil the poller asks for what came after; after an error it asks for
// the same again, later. So it must do nothing twice, and be quick.
type Take func(ctx context.Context, batch Batch) error

// Poller reads restart requests. Source: contract §5.5.
type Poller struct {
	client *Client
	take   Take
	cursor atomic.Int64

	etag     string // of the last answer for this cursor
	failures int    // in a row
	invalid  bool   // said already that items are left out
	untaken  bool   // said already that they could not be taken
	wake     chan struct{}
}

// NewPoller returns a poller that starts after the cursor: 0 asks for everything that the server still has. A new leader may start too early:
// what it is told again is not newer than what the Workspaces' status.artifact has, and changes nothing.
func NewPoller(client *Client, after int64, take Take) *Poller {
	p := &Poller{client: client, take: take, wake: make(chan struct{}, 1)}
	p.cursor.Store(after)
	client.state.onRecovery(DeployStatus, func() { signal(p.wake) })
	return p
}

// Cursor is the position up to which everything was taken.
func (p *Poller) Cursor() int64 { return p.cursor.Load() }

// Run polls until ctx ends.
func (p *Poller) Run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-p.wake: // of before
		default:
		}
		delay, asked := p.poll(ctx)
		timer := p.client.clock.NewTimer(delay)
		var wake <-chan struct{}
		if p.failures > 0 && !asked {
			wake = p.wake
		}
		select {
		case <-timer.C():
		case <-wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// poll asks once. It returns when to ask again, and whether that is what the server asked for.
func (p *Poller) poll(ctx context.Context) (delay time.Duration, asked bool) {
	header := http.Header{}
	if p.etag != "" {
		header.Set("If-None-Match", p.etag)
	}
	after := p.cursor.Load()
	query := url.Values{"after": {strconv.FormatInt(after, 10)}}.Encode()
	a := p.client.do(ctx, DeployStatus, http.MethodGet, query, nil, header, maxDeployStatusBytes)
	var batch Batch
	if a.outcome == accepted {
		batch, a = p.decode(a, after)
	}
	if a.outcome == notModified && p.etag == "" || a.outcome == duplicate {
		a.outcome = malformed
	}
	if a.outcome == refused { // there is nothing to drop, and asking every 10 s for what is refused helps nobody
		a.outcome = failed
	}
	p.client.observe(ctx, DeployStatus, a)
	switch {
	case ctx.Err() != nil:
		return 0, false
	case !a.outcome.healthy():
		p.failures++
		if a.retryAfter > 0 {
			return jitter(a.retryAfter), true
		}
		return max(PollInterval, backoff(p.failures)), false
	case a.outcome == accepted && !p.deliver(ctx, batch):
		p.etag = "" // to get the same once more
		p.failures++
		return max(PollInterval, backoff(p.failures)), false
	case a.outcome == accepted:
		p.etag = ""
		if batch.Cursor == after && len(a.etag) <= 256 {
			p.etag = a.etag // a tag of another cursor's answer would not fit
		}
	}
	p.failures = 0
	return jitter(PollInterval), false
}

func (p *Poller) decode(a answer, after int64) (Batch, answer) {
	if !a.whole {
		a.outcome, a.err = malformed, fmt.Errorf("its answer was cut off, or is larger than %d bytes", maxDeployStatusBytes)
		return Batch{}, a
	}
	batch, invalid, err := decodeDeployStatus(a.body, after)
	if err != nil {
		a.outcome, a.err = malformed, err
		return Batch{}, a
	}
	p.client.metrics.dropped(DeployStatus, dropInvalid, invalid)
	if invalid > 0 && !p.invalid {
		p.client.logger.Error(nil, "Cluster Control asks for restarts in a form that cannot be used: they are left out. Further ones "+
			"are counted and not logged", "items", invalid)
		p.invalid = true
	}
	return batch, a
}

// deliver hands a batch over and moves the cursor once it was taken.
func (p *Poller) deliver(ctx context.Context, batch Batch) bool {
	if len(batch.Items) > 0 {
		if err := p.take(ctx, batch); err != nil {
			if !p.untaken && !errors.Is(err, context.Canceled) {
				p.untaken = true
				p.client.logger.Error(err, "Restart requests could not be taken and will be asked for again", "items", len(batch.Items))
			}
			return false
		}
	}
	p.untaken = false
	p.cursor.Store(batch.Cursor)
	return true
}
