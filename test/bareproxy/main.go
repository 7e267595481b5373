// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bareproxy is the least that a reverse proxy in Go can be: what the latency of the activator is compared with. It listens on port
// 8080 and sends everything to the URL in TARGET.
package main

import (
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"
)

func main() {
	if err := run(os.Getenv("TARGET")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(to string) error {
	target, err := url.Parse(to)
	if err != nil {
		return fmt.Errorf("TARGET: %w", err)
	}
	server := &http.Server{
		Addr:              ":8080",
		ReadHeaderTimeout: time.Minute,
		Handler: &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(target)
				r.Out.Host = r.In.Host
				r.SetXForwarded()
			},
			// With the default of two idle connections to the pod it would be compared at its worst.
			Transport: &http.Transport{MaxIdleConnsPerHost: 128, DisableCompression: true},
		},
	}
	return server.ListenAndServe()
}
