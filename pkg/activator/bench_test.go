// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// BenchmarkHeld holds 5,000 requests, and reports what one of them costs in memory. The manifests' limit comes from here.
func BenchmarkHeld(b *testing.B) {
	const n = 5000
	for name, text := range map[string]string{
		"GET":  "GET / HTTP/1.1\nHost: " + shopHost + "\nUser-Agent: bench\nAccept: */*\nX-Request-Id: 0123456789\n\n",
		"POST": "POST / HTTP/1.1\nHost: " + shopHost + "\nUser-Agent: bench\nContent-Length: 1000000\n\n" + strings.Repeat("x", 8<<10),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r := newRig(b, nil)
				before := inUse()
				conns := make([]*raw, 0, n)
				for range n {
					c := dialRaw(b, r.address, text)
					c.Reader = nil // the client's own memory does not count
					conns = append(conns, c)
				}
				r.waitsFor(n)
				b.ReportMetric(float64(inUse()-before)/n, "B/held")
				for _, c := range conns {
					_ = c.Close()
				}
				r.waitsFor(0)
			}
		})
	}
}

// inUse is what Go has taken for heap and stacks, and not given back.
func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// BenchmarkWarm compares the way through the activator with a bare ReverseProxy in the same place, and with no proxy at all, under 50
// concurrent clients in the same run. What is asked for: at most 1.1 times the bare one, at p50 and p99.
func BenchmarkWarm(b *testing.B) {
	const clients = 50
	r := newRig(b, nil)
	pod := newPod(b, hello)
	r.pods("shop", pod)
	target := &url.URL{Scheme: "http", Host: pod}
	bare := &httputil.ReverseProxy{
		Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(target); p.Out.Host = p.In.Host; p.SetXForwarded() },
		Transport: &http.Transport{MaxIdleConnsPerHost: 2 * clients, DisableCompression: true},
	}
	proxies := []struct {
		name, address string
		took          []time.Duration
	}{{name: "activator", address: r.address}, {name: "bare", address: newPod(b, bare.ServeHTTP)}, {name: "direct", address: pod}}
	client := newClient(b, false)
	var mu sync.Mutex
	for i := 0; b.Loop(); i++ {
		proxy := &proxies[i%len(proxies)] // taking turns, so that all meet the same weather
		var round sync.WaitGroup
		for range clients {
			round.Go(func() {
				for range 10 {
					request := r.request(b.Context(), "GET", "/", nil)
					request.URL.Host = proxy.address
					started := time.Now()
					res, err := client.Do(request)
					if err != nil || res.StatusCode != http.StatusOK {
						b.Errorf("%v %v", res, err)
						return
					}
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
					took := time.Since(started)
					mu.Lock()
					proxy.took = append(proxy.took, took)
					mu.Unlock()
				}
			})
		}
		round.Wait()
	}
	at := func(took []time.Duration, percent int) float64 {
		if len(took) == 0 {
			return 0
		}
		slices.Sort(took)
		return float64(took[(len(took)-1)*percent/100].Microseconds())
	}
	for _, percent := range []int{50, 99} {
		suffix := map[int]string{50: "-p50-us", 99: "-p99-us"}[percent]
		for _, proxy := range proxies {
			b.ReportMetric(at(proxy.took, percent), proxy.name+suffix)
		}
		b.ReportMetric(at(proxies[0].took, percent)/at(proxies[1].took, percent), "ratio"+suffix[:4])
	}
}
