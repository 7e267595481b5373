// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// mirror answers with the request as the pod got it.
func mirror(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
	}
	seen := struct {
		Method, URI, Host, Proto, Body string
		Length                         int64
		TransferEncoding               []string
		Header, Trailer                http.Header
	}{r.Method, r.RequestURI, r.Host, r.Proto, string(body), r.ContentLength, r.TransferEncoding, r.Header, r.Trailer}
	w.Header().Set("X-Pod", "yes")
	w.Header()["X-Several"] = []string{"one", "two"}
	_ = json.NewEncoder(w).Encode(seen)
}

// The pod gets the same bytes from a client directly, through a cold activator and through a warm one, but for X-Forwarded-For; and the
// client gets the same answer, but for the cold start header.
func TestThePodSeesTheSameRequest(t *testing.T) {
	requests := map[string]string{
		"a plain one": "GET /a/b?c=d&e=;f HTTP/1.1\nHost: HOST\n\n",
		"behind a proxy that ends TLS": "GET / HTTP/1.1\nHost: HOST\nX-Forwarded-Proto: https\nX-Forwarded-Host: shop.example.com\nX-Forwarded-Port: 443\n" +
			"Forwarded: for=192.0.2.43;proto=https\nX-Real-Ip: 192.0.2.43\nUser-Agent: curl/8\nAccept-Encoding: br\n\n",
		"with a header that a client would like to lose": "GET / HTTP/1.1\nHost: HOST\nX-Forwarded-Proto: https\nForwarded: proto=https\nConnection: X-Forwarded-Proto, Forwarded\n\n",
		"a path that is escaped like nobody else does":   "GET /a%2fb/%7Euser/[x]|y//z?q=%zz&%41=+ HTTP/1.1\nHost: HOST\n\n",
		"a path that looks like a host":                  "GET //example.com/x HTTP/1.1\nHost: HOST\n\n",
		"of the server itself":                           "OPTIONS * HTTP/1.1\nHost: HOST\n\n",
		"with a body":                                    "POST / HTTP/1.1\nHost: HOST\nContent-Type: text/plain\nContent-Length: 5\n\nhello",
		"with an empty body":                             "POST / HTTP/1.1\nHost: HOST\nContent-Length: 0\n\n",
		"in chunks, with a trailer": "POST / HTTP/1.1\nHost: HOST\nTE: trailers\nTrailer: X-Checksum\nTransfer-Encoding: chunked\n\n" +
			"5\nhello\n0\nX-Checksum: abc\n\n",
		"with a method of its own":       "PURGE /cache HTTP/1.1\nHost: HOST\n\n",
		"with headers of several values": "GET / HTTP/1.1\nHost: HOST\nAccept: a\nAccept: b\nCookie: c=d\nCookie: e=f\nAuthorization: Bearer x\nX-Empty:\n\n",
	}
	for name, text := range requests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			pod := newPod(t, mirror)
			text = strings.ReplaceAll(text, "HOST", shopHost+":8080")
			ask := func(address string) (http.Header, string) {
				c := dialRaw(t, address, text)
				return c.answer(t)
			}
			type reply struct {
				header http.Header
				body   string
			}
			cold := make(chan reply, 1)
			go func() {
				header, body := ask(r.address)
				cold <- reply{header, body}
			}()
			r.waitsFor(1)
			r.pods("shop", pod)
			coldReply := <-cold
			warmHeader, warm := ask(r.address)
			directHeader, direct := ask(pod)

			if coldReply.body != warm {
				t.Errorf("the pod saw, cold and warm:\n%s\n%s", coldReply.body, warm)
			}
			if want := withForwardedFor(t, direct, "127.0.0.1"); warm != want {
				t.Errorf("the pod saw, and would have seen directly:\n%s\n%s", warm, want)
			}
			if coldReply.header.Get(coldStartHeader) == "" {
				t.Error("the woken answer does not say so")
			}
			coldReply.header.Del(coldStartHeader)
			for _, header := range []http.Header{coldReply.header, warmHeader, directHeader} {
				header.Del("Date")
				header.Del("Content-Length") // that of the longer mirror image
			}
			if got, want := fmt.Sprint(coldReply.header), fmt.Sprint(directHeader); got != want {
				t.Errorf("the client got, cold:\n%s\nwant\n%s", got, want)
			}
			if got, want := fmt.Sprint(warmHeader), fmt.Sprint(directHeader); got != want {
				t.Errorf("the client got, warm:\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// answer reads a whole answer.
func (c *raw) answer(t testing.TB) (http.Header, string) {
	t.Helper()
	res, err := http.ReadResponse(c.Reader, nil)
	if err != nil {
		t.Error(err)
		return http.Header{}, ""
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("status %s, %q, %v", res.Status, body, err)
	}
	return res.Header, string(body)
}

// withForwardedFor adds an address to X-Forwarded-For of what a pod saw.
func withForwardedFor(t *testing.T, seen, ip string) string {
	t.Helper()
	var fields map[string]json.RawMessage
	var header http.Header
	if err := json.Unmarshal([]byte(seen), &fields); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(fields["Header"], &header); err != nil {
		t.Fatal(err)
	}
	header.Del("Connection") // hop by hop
	header.Del("Te")
	if strings.Contains(string(fields["Header"]), `"Te":["trailers"]`) {
		header.Set("Te", "trailers") // which ReverseProxy keeps: it forwards trailers
	}
	header.Set("X-Forwarded-For", ip)
	var original struct {
		Method, URI, Host, Proto, Body string
		Length                         int64
		TransferEncoding               []string
		Header, Trailer                http.Header
	}
	if err := json.Unmarshal([]byte(seen), &original); err != nil {
		t.Fatal(err)
	}
	original.Header = header
	text, err := json.Marshal(original)
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

func TestForwardedForIsAppended(t *testing.T) {
	r := newRig(t, nil)
	r.pods("shop", newPod(t, mirror))
	c := dialRaw(t, r.address, "GET / HTTP/1.1\nHost: "+shopHost+"\nX-Forwarded-For: 192.0.2.1\nX-Forwarded-For: 192.0.2.2\n\n")
	if _, body := c.answer(t); !strings.Contains(body, `"X-Forwarded-For":["192.0.2.1, 192.0.2.2, 127.0.0.1"]`) {
		t.Errorf("the pod saw %s", body)
	}
}

func TestHopByHopHeadersStay(t *testing.T) {
	r := newRig(t, nil)
	r.pods("shop", newPod(t, mirror))
	c := dialRaw(t, r.address, "GET / HTTP/1.1\nHost: "+shopHost+"\nConnection: keep-alive, X-Hop, Upgrade, HTTP2-Settings\nUpgrade: h2c\n"+
		"HTTP2-Settings: AAMAAABk\nKeep-Alive: 5\nProxy-Authorization: x\nX-Hop: y\n\n")
	_, body := c.answer(t)
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Authorization", "X-Hop", "Upgrade", "Http2-Settings"} {
		if strings.Contains(body, name) {
			t.Errorf("%s went on: %s", name, body)
		}
	}
}

// Nothing of a body is read before there is somewhere to send it, and then all of it arrives.
func TestABodyIsNotReadBeforeAPodIsReady(t *testing.T) {
	const size = 64 << 20 // more than all buffers on the way
	for name, test := range map[string]struct {
		h2   bool
		most int64 // what the activator may have read
	}{
		"HTTP/1.1": {false, 16 << 10},
		"HTTP/2":   {true, 64<<10 + 16<<10},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			pod := newPod(t, func(w http.ResponseWriter, r *http.Request) {
				sum := sha256.New()
				n, err := io.Copy(sum, r.Body)
				fmt.Fprintf(w, "%d %x %v", n, sum.Sum(nil), err)
			})
			body := &pattern{left: size}
			answers := start(newClient(t, test.h2), r.request(t.Context(), "POST", "/", body))
			r.waitsFor(1)
			r.eventually("the client sends", func() bool { return body.given.Load() >= 32<<10 })
			if read := r.read.Load(); read > test.most {
				t.Errorf("the activator has read %d bytes", read)
			}
			r.pods("shop", pod)
			want := sha256.New()
			_, _ = io.Copy(want, &pattern{left: size})
			if got := <-answers; got.body != fmt.Sprintf("%d %x <nil>", size, want.Sum(nil)) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// pattern is a long body that no two buffers look the same of.
type pattern struct {
	left  int
	n     byte
	given atomic.Int64
}

func (p *pattern) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	b = b[:min(len(b), p.left)]
	for i := range b {
		p.n = p.n*31 + 7
		b[i] = p.n
	}
	p.left -= len(b)
	p.given.Add(int64(len(b)))
	return len(b), nil
}

func TestExpectContinue(t *testing.T) {
	const head = "POST / HTTP/1.1\nHost: " + shopHost + "\nExpect: 100-continue\nContent-Length: 5\n\n"
	t.Run("the pod wants the body", func(t *testing.T) {
		r := newRig(t, nil)
		c := dialRaw(t, r.address, head)
		r.waitsFor(1)
		r.pods("shop", newPod(t, mirror))
		if got := c.head(t); !strings.HasPrefix(got, "HTTP/1.1 100 ") {
			t.Fatalf("got %q", got)
		}
		c.send(t, "hello")
		if _, body := c.answer(t); !strings.Contains(body, `"Body":"hello"`) || !strings.Contains(body, `"Expect":["100-continue"]`) {
			t.Errorf("the pod saw %s", body)
		}
	})
	t.Run("the pod does not want it", func(t *testing.T) {
		r := newRig(t, nil)
		c := dialRaw(t, r.address, head)
		r.waitsFor(1)
		r.pods("shop", newPod(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) }))
		if got := c.head(t); !strings.HasPrefix(got, "HTTP/1.1 413 ") {
			t.Errorf("got %q, want the refusal and not 100", got)
		}
	})
}

func TestInformationalAnswersPass(t *testing.T) {
	r := newRig(t, nil)
	r.pods("shop", newPod(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusNoContent)
	}))
	c := dialRaw(t, r.address, "GET / HTTP/1.1\nHost: "+shopHost+"\n\n")
	if got := c.head(t); !strings.HasPrefix(got, "HTTP/1.1 103 ") || !strings.Contains(got, "style.css") {
		t.Errorf("got %q", got)
	}
	if got := c.head(t); !strings.HasPrefix(got, "HTTP/1.1 204 ") {
		t.Errorf("got %q", got)
	}
}

// A pod's answer is not touched: not compressed, not decompressed, not buffered.
func TestAnswersPassAsTheyAre(t *testing.T) {
	r := newRig(t, nil)
	zipped := []byte{0x1f, 0x8b, 8, 0, 1, 2, 3}
	r.pods("shop", newPod(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Location", "http://formspec-resource-shop/x")
		w.Header().Set("Content-Length", "7")
		w.WriteHeader(http.StatusFound)
		_, _ = w.Write(zipped)
	}))
	client := newClient(t, false)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	got := do(client, r.request(t.Context(), "GET", "/", nil))
	if got.code != http.StatusFound || !bytes.Equal([]byte(got.body), zipped) || got.header.Get("Location") != "http://formspec-resource-shop/x" {
		t.Errorf("got %+v", got)
	}
}
