// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"context"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// coldStartHeader is on the answer to a request that was held while its Workspace woke up: for how many milliseconds.
const coldStartHeader = "X-Formspec-Cold-Start"

// forwardingHeaders tell a pod about the client. They stay as they come: the proxy in front knows better than the activator, which sees
// that proxy only. ReverseProxy removes them.
var forwardingHeaders = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// flushInterval is how long a part of an answer may wait for more, if the pod said how long the answer is. Answers of unknown length, and
// event streams, go on byte by byte (that is ReverseProxy's own rule).
const flushInterval = 20 * time.Millisecond

func (a *Activator) newProxy(ctx context.Context) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:        rewrite,
		Transport:      roundTripper(a.forward),
		FlushInterval:  flushInterval,
		BufferPool:     new(buffers),
		ModifyResponse: a.answered,
		ErrorHandler:   a.failed,
		ErrorLog:       quietLog(ctx),
	}
}

// roundTripper makes an http.RoundTripper of a function.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// rewrite undoes what ReverseProxy does to a request beyond removing hop-by-hop headers, and adds the client to X-Forwarded-For.
func rewrite(r *httputil.ProxyRequest) {
	in, out := r.In, r.Out
	out.Host = in.Host
	out.URL.Scheme, out.URL.User = "http", nil
	out.URL.RawQuery = in.URL.RawQuery
	if path, _, _ := strings.Cut(in.RequestURI, "?"); strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//") && path != out.URL.EscapedPath() {
		out.URL.Opaque = path // it is escaped in another way than Go's, and perhaps signed
	}
	for _, name := range forwardingHeaders {
		if values, ok := in.Header[name]; ok {
			out.Header[name] = slices.Clone(values)
		}
	}
	if ip, _, err := net.SplitHostPort(in.RemoteAddr); err == nil {
		out.Header.Set("X-Forwarded-For", strings.Join(append(out.Header["X-Forwarded-For"], ip), ", "))
	}
	if strings.EqualFold(out.Header.Get("Upgrade"), "h2c") {
		// An old way into HTTP/2 that goes from hop to hop. A pod that took it would be out of the proxy's sight.
		out.Header.Del("Upgrade")
		out.Header.Del("Connection")
	}
	out.Trailer = in.Trailer // filled at the end of the body
	if out.Body != nil {
		out.Body = keepOpen{out.Body}
	}
}

// answered is called when a pod has answered.
func (a *Activator) answered(res *http.Response) error {
	if p := passageOf(res.Request.Context()); p.cold {
		p.outcome = outcomeWoken
		res.Header.Set(coldStartHeader, strconv.FormatInt(p.held.Milliseconds(), 10))
	}
	if a.running.isDraining() && res.StatusCode != http.StatusSwitchingProtocols {
		res.Header.Set("Connection", "close") // connect to another replica next time
	}
	return nil
}

// buffers are what bodies are copied through.
type buffers struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[]byte); ok {
		return *buffer
	}
	return make([]byte, 32<<10)
}

// Put implements httputil.BufferPool.
func (b *buffers) Put(buffer []byte) { b.pool.Put(&buffer) }

// quietLog is for what net/http has to say about clients and pods that hang up: it is no news.
func quietLog(ctx context.Context) *log.Logger {
	return log.New(logWriter{klog.FromContext(ctx).V(4)}, "", 0)
}

type logWriter struct{ logger klog.Logger }

// Write implements io.Writer.
func (w logWriter) Write(line []byte) (int, error) {
	w.logger.Info(strings.TrimSpace(string(line)))
	return len(line), nil
}
