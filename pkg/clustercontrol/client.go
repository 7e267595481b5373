// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package clustercontrol

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/formspec/formspec-operator/pkg/version"
)

const (
	// requestTimeout is the deadline of a request, from the dial to the last byte of its answer.
	requestTimeout = 10 * time.Second
	// maxAnswerBytes is how much of the answer to a POST is read: nothing in it counts, and a rest is not worth waiting for.
	maxAnswerBytes = 4 << 10
)

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// Options of a Client.
type Options struct {
	// URL is --control-cluster-url, and may have a path.
	URL string
	// AllowHTTP accepts an http:// URL (--dev).
	AllowHTTP bool
	// TLS names the files of the channel.
	TLS TLSFiles
	// Identity returns the key that signs. It is asked for each request, and must not block.
	Identity func() (*Identity, error)
	// Metrics are told of every request. Nil: nobody.
	Metrics *Metrics
	// Changed is called when Cluster Control became reachable or unreachable, for an Event. reason is for people, one line. It must not
	// block. Nil: nobody.
	Changed func(reachable bool, reason string)
	// Dial opens connections, also to a proxy. Wrap is put around the transport. Both are for the fence of the leader; nil: none.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	Wrap func(http.RoundTripper) http.RoundTripper
	// Clock is what deadlines of retries are counted by. Nil: the real one.
	Clock clock.WithTicker
}

// Client makes signed requests, each under one deadline. It is safe for concurrent use.
type Client struct {
	base     *url.URL
	channel  *transport // below http, which may be wrapped
	http     *http.Client
	identity func() (*Identity, error)
	metrics  *Metrics
	clock    clock.WithTicker
	logger   klog.Logger
	state    *reachability
}

// NewClient checks the options. It makes no request.
func NewClient(ctx context.Context, o Options) (*Client, error) {
	base, err := parseURL(o.URL, o.AllowHTTP)
	if err != nil {
		return nil, fmt.Errorf("the URL of Cluster Control: %w", err)
	}
	if o.Identity == nil {
		return nil, errors.New("a client of Cluster Control needs an identity")
	}
	t, err := newTransport(klog.FromContext(ctx), o.TLS, o.Dial)
	if err != nil {
		return nil, fmt.Errorf("set up the channel to Cluster Control: %w", err)
	}
	var roundTripper http.RoundTripper = t
	if o.Wrap != nil {
		roundTripper = o.Wrap(t)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	c := &Client{
		base: base, channel: t, identity: o.Identity, metrics: o.Metrics, clock: o.Clock, logger: klog.FromContext(ctx),
		http: &http.Client{
			Transport:     roundTripper,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	c.state = newReachability(c.logger, o.Metrics, o.Changed)
	return c, nil
}

func parseURL(value string, allowHTTP bool) (*url.URL, error) {
	u, err := url.Parse(value)
	switch {
	case err != nil:
		return nil, fmt.Errorf("parse: %w", err)
	case u.User != nil:
		return nil, errors.New("must not contain credentials")
	case u.Scheme != "https" && u.Scheme != "http", u.Host == "":
		return nil, fmt.Errorf("%q must be an https:// URL with a host", value)
	case u.Scheme == "http" && !allowHTTP:
		return nil, fmt.Errorf("%q is not encrypted: use https://, or set --dev", value)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%q must have neither query nor fragment", value)
	}
	return u, nil
}

// answer is what became of a request.
type answer struct {
	outcome    outcome
	unsent     bool          // no byte of the request can have left this process
	status     int           // 0: none came
	retryAfter time.Duration // what the server asks for; 0: nothing
	etag       string
	body       []byte // no more than was asked for
	whole      bool   // the body is all of it
	err        error  // why there is no answer
}

// reason says what happened in one line, for people.
func (a answer) reason() string {
	switch {
	case a.err != nil:
		return a.err.Error()
	case a.status >= 300 && a.status < 400 && a.status != http.StatusNotModified:
		return fmt.Sprintf("it answers %d %s, which is not followed: check the URL", a.status, http.StatusText(a.status))
	default:
		return strings.TrimSpace(fmt.Sprintf("it answers %d %s", a.status, http.StatusText(a.status)))
	}
}

// CloseIdleConnections closes what would otherwise close after a while.
func (c *Client) CloseIdleConnections() { c.channel.CloseIdleConnections() }

// post sends body to the endpoint.
func (c *Client) post(ctx context.Context, endpoint Endpoint, body []byte) answer {
	a := c.do(ctx, endpoint, http.MethodPost, "", body, nil, maxAnswerBytes)
	c.observe(ctx, endpoint, a)
	return a
}

// observe tells what became of a request, unless whoever asked gave it up: that says nothing of the server.
func (c *Client) observe(ctx context.Context, endpoint Endpoint, a answer) {
	if ctx.Err() == nil {
		c.metrics.observe(endpoint, a.outcome, c.clock.Now())
		c.state.observe(endpoint, a)
	}
}

// do makes one request and reads at most limit bytes of its answer.
func (c *Client) do(ctx context.Context, endpoint Endpoint, method, query string, body []byte, header http.Header, limit int64) answer {
	key, err := c.identity()
	if err != nil {
		return answer{outcome: noIdentity, unsent: true, err: fmt.Errorf("sign a request: %w", err)}
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	target := c.base.JoinPath(endpoint.Path())
	target.RawQuery = query
	req, err := http.NewRequestWithContext(ctx, method, target.String(), bytes.NewReader(body))
	if err != nil {
		return answer{outcome: unreachable, unsent: true, err: err}
	}
	maps.Copy(req.Header, header)
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", "formspec-operator/"+version.Get().Version)
	req.Header.Set(HeaderKeyID, key.KeyID())
	req.Header.Set(HeaderSignature, key.Sign(body))
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{outcome: unreachable, unsent: !connected.Load(), err: plain(err)}
	}
	defer resp.Body.Close() // which ends the connection if something is left to read
	a := answer{outcome: classify(resp.StatusCode), status: resp.StatusCode, etag: resp.Header.Get("ETag")}
	if a.outcome == throttled {
		a.retryAfter = retryAfter(resp.Header, c.clock.Now())
	}
	a.body, err = io.ReadAll(io.LimitReader(resp.Body, limit+1))
	a.whole = err == nil && int64(len(a.body)) <= limit
	return a
}

// plain takes the method and URL out of an error of http.Client: whoever reads it knows them.
func plain(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %s", requestTimeout)
	}
	return err
}
