// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/klog/v2"
)

// retryAfter is when a client that was not served should try again.
const retryAfter = 5 * time.Second

// startingPage reloads itself. It needs nothing from anywhere else.
//
//go:embed starting.html
var startingPage string

// wantsPage says whether a client is a browser that opens a page, which can be told to come back.
func wantsPage(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Upgrade") == "" && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// failed answers for a pod that did not. Nothing was written yet.
func (a *Activator) failed(w http.ResponseWriter, r *http.Request, err error) {
	p := passageOf(r.Context())
	if a.running.isDraining() {
		w.Header().Set("Connection", "close")
	}
	switch {
	case r.Context().Err() != nil || errors.Is(err, errHungUp):
		p.outcome = outcomeCanceled
		w.WriteHeader(http.StatusServiceUnavailable) // to nobody
	case errors.Is(err, errStarting):
		p.outcome = outcomeStarting
		starting(w)
	case errors.Is(err, errDeadline):
		p.outcome = outcomeTimeout
		unavailable(w, notReady(a.config.WakeDeadline, a.reason(p)))
	case errors.Is(err, errFull), errors.Is(err, errFullHere), errors.Is(err, errUploads):
		p.outcome = outcomeRejected
		a.metrics.reject(limitOf(err))
		unavailable(w, fmt.Sprintf("The Workspace is waking up, and %s. Try again.", err))
	case errors.Is(err, errGone):
		p.outcome = outcomeUnknownHost
		unknownHost(w, r.Host)
	default:
		p.outcome = outcomeFailed
		klog.FromContext(r.Context()).V(2).Info("A pod did not answer", "workspace", klog.KObj(p.workspace), "err", err)
		plain(w, http.StatusBadGateway, "The Workspace did not answer.")
	}
}

func limitOf(err error) string {
	switch {
	case errors.Is(err, errFull):
		return "total"
	case errors.Is(err, errFullHere):
		return "workspace"
	}
	return "connection"
}

// notReady is for whoever sent the request, perhaps from outside: it has the operator's reason, a word of the API, and no message.
func notReady(deadline time.Duration, reason string) string {
	if reason == "" {
		reason = "unknown"
	}
	return fmt.Sprintf("The Workspace did not become ready within %s. Reason: %s. It goes on starting; try again.", deadline, reason)
}

func unknownHost(w http.ResponseWriter, host string) {
	const longest = 300 // of what is repeated to the client
	if len(host) > longest {
		host = host[:longest]
	}
	plain(w, http.StatusNotFound, fmt.Sprintf("No Workspace answers to the host %q.\n"+
		"Looked for: the Service of a Workspace, as <service>.<namespace>, <service>.<namespace>.svc or with the cluster's domain "+
		"(a Service name alone does not tell the namespace); and a Workspace with this name in spec.hosts, "+
		"below one of the hostSuffixes of its ClusterClass, that nobody older claims.", host))
}

func unavailable(w http.ResponseWriter, text string) {
	w.Header().Set("Retry-After", strconv.Itoa(int(retryAfter.Seconds())))
	plain(w, http.StatusServiceUnavailable, text)
}

func plain(w http.ResponseWriter, code int, text string) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text+"\n") //nolint:gosec // G705: plain text, and nosniff says that it stays so
}

func starting(w http.ResponseWriter) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	header.Set("Retry-After", "2")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = io.WriteString(w, startingPage)
}
