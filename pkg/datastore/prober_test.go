// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/datastore"
	"github.com/formspec/formspec-operator/test/servers"
)

// eventually waits for a condition that nothing tells of.
func eventually(t *testing.T, condition func() bool, format string, arguments ...any) {
	t.Helper()
	deadline := time.After(10 * time.Second) // pgconn's own patience would be 15
	for tick := time.NewTicker(10 * time.Millisecond); !condition(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf(format, arguments...)
		}
	}
}

// noMoreGoroutines checks, when the test ends, that there are no more than there are now.
func noMoreGoroutines(t *testing.T) {
	t.Helper()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		eventually(t, func() bool { return runtime.NumGoroutine() <= before }, "there were %d goroutines before, and more now", before)
	})
}

// full is the address of a server that drops packets: its queue of connections is full.
func full(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for range 8 {
		conn, err := net.DialTimeout("tcp", address, 20*time.Millisecond)
		if err != nil {
			return address
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Skip("this system's queue of connections has no end")
	return ""
}

// slowly is a proxy that stops answering after so many bytes of what the server says.
func slowly(t *testing.T, to string, bytes int64) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			go func() {
				_, _ = io.Copy(server, client)
				client.Close()
				server.Close()
			}()
			go func() { _, _ = io.CopyN(client, server, bytes) }()
		}
	}()
	return l.Addr().String()
}

func TestTheDeadlineIsHard(t *testing.T) {
	authority := servers.NewAuthority(t)
	certificate, key := authority.Certificate(t, "127.0.0.1")
	server := servers.Postgres(t, servers.PostgresOptions{Certificate: certificate, Key: key})
	at := fmt.Sprintf("127.0.0.1:%d", server.Port)
	// How much the server says in a session, to stop at every stage of it.
	said := int64(1 + 1200 + 600)

	noMoreGoroutines(t)
	const timeout = 300 * time.Millisecond
	prober := datastore.NewProber(datastore.ProberOptions{Timeout: timeout})
	silent, dropping := listen(t, ""), full(t)
	endpoints := map[string]datastore.Endpoint{}
	for _, address := range []string{silent, dropping} {
		for name, text := range map[v1alpha1.Driver]string{
			pg: "postgres://u:p@%s", rd: "redis://u:p@%s", vk: "valkeys://%s", s3: "http://%s", v1alpha1.DriverGarage: "https://%s", natsio: "nats://%s",
		} {
			endpoints[string(name)+" "+address] = parse(t, name, fmt.Sprintf(text, address), nil)
		}
		endpoints["two hosts "+address] = parse(t, pg, fmt.Sprintf("postgres://u:p@%s,%s", address, address), nil)
	}
	for stop := int64(0); stop < said; stop += 100 {
		for _, mode := range []string{"disable", "require", "prefer"} {
			endpoints[fmt.Sprintf("%s, silent after %d bytes", mode, stop)] = parse(t, pg, fmt.Sprintf("postgres://postgres:%s@%s/postgres?sslmode=%s", server.Password, slowly(t, at, stop), mode), nil)
		}
	}
	var probes sync.WaitGroup
	for name, e := range endpoints {
		probes.Go(func() {
			start := time.Now()
			got := prober.Probe(t.Context(), e)
			if took := time.Since(start); took > timeout+5*time.Second { // the machine may be busy
				t.Errorf("%s: took %s", name, took)
			}
			if !got.Valid() && got.Reason != v1alpha1.ReasonUnreachable {
				t.Errorf("%s: got %+v", name, got)
			}
		})
	}
	probes.Wait()
}

func TestAProbeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	e := parse(t, rd, "redis://"+listen(t, ""), nil)
	time.AfterFunc(50*time.Millisecond, cancel)
	start := time.Now()
	expect(t, datastore.NewProber(datastore.ProberOptions{Timeout: time.Minute}).Probe(ctx, e), v1alpha1.ReasonUnreachable)
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("took %s", took)
	}
}

// FR-45: closed, silent, dropping, another protocol, a name that does not exist, an address that is not probed: one answer.
func TestHostsThatDoNotAnswerAllLookTheSame(t *testing.T) {
	prober := datastore.NewProber(datastore.ProberOptions{Timeout: 300 * time.Millisecond})
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	message := ""
	for _, address := range []string{
		"127.0.0.1:1", listen(t, ""), full(t), web.Listener.Addr().String(), listen(t, "SSH-2.0-OpenSSH_9.6\r\n"), "nowhere.invalid:1",
		"169.254.169.254:80", "[fe80::1]:80", "0.0.0.0:80", "[::ffff:169.254.169.254]:80",
	} {
		for driver, text := range map[v1alpha1.Driver]string{pg: "postgres://u:p@%s", rd: "redis://:p@%s", natsio: "nats://%s"} {
			got := prober.Probe(t.Context(), parse(t, driver, fmt.Sprintf(text, address), nil))
			expect(t, got, v1alpha1.ReasonUnreachable)
			_, says, _ := strings.Cut(got.Message, ": ")
			if message == "" {
				message = says
			}
			if says != message {
				t.Errorf("%s at %s says %q, others say %q", driver, address, says, message)
			}
		}
	}
}

func TestTheOperatorsOwnMachineCanBeRefused(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	e := parse(t, s3, web.URL, nil)
	expect(t, datastore.NewProber(datastore.ProberOptions{}).Probe(t.Context(), e), valid)
	expect(t, datastore.NewProber(datastore.ProberOptions{RefuseLoopback: true}).Probe(t.Context(), e), v1alpha1.ReasonUnreachable)
}

func TestObjectStoresAreAskedWithoutCredentials(t *testing.T) {
	status := http.StatusForbidden
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodHead || r.URL.Path != "/" || r.URL.RawQuery != "" || r.Header.Get("Authorization") != "" {
			t.Errorf("got %s %s %v", r.Method, r.URL, r.Header)
		}
		w.Header().Set("Location", "http://127.0.0.1:1/")
		w.WriteHeader(status)
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer secure.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	noMoreGoroutines(t)

	at := func(url string) string { return strings.Replace(url, "://", "://KEY:secret@", 1) + "/bucket?secret=x" }
	expect(t, probe(t, s3, at(plain.URL), nil), valid)
	expect(t, probe(t, s3, at(secure.URL), ca), valid)
	expect(t, probe(t, s3, at(secure.URL), nil), v1alpha1.ReasonTLSVerificationFailed)
	expect(t, probe(t, s3, at(strings.Replace(plain.URL, "http:", "https:", 1)), nil), v1alpha1.ReasonTLSVerificationFailed)
	status = http.StatusMovedPermanently // to where nothing answers
	expect(t, probe(t, s3, at(plain.URL), nil), valid)
	status = http.StatusServiceUnavailable
	expect(t, probe(t, s3, at(plain.URL), nil), v1alpha1.ReasonServerNotReady)
}

func TestNATSServersGreet(t *testing.T) {
	const greeting = "INFO {\"server_id\":\"x\",\"max_payload\":1048576}\r\n"
	expect(t, probe(t, natsio, "nats://u:secret@"+listen(t, greeting), nil), valid)
	expect(t, probe(t, natsio, "nats://127.0.0.1:1,nats://"+listen(t, greeting), nil), valid)
	expect(t, probe(t, natsio, "nats://"+listen(t, "-ERR 'hunter2'\r\n"), nil), v1alpha1.ReasonUnreachable)

	authority := servers.NewAuthority(t)
	certificate, key := authority.Certificate(t, "127.0.0.1")
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte(greeting))
			go func() {
				secure := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{pair}})
				_, _ = bufio.NewReader(secure).ReadString('\n')
				secure.Close()
			}()
		}
	}()
	expect(t, probe(t, natsio, "tls://"+l.Addr().String(), authority.PEM), valid)
	expect(t, probe(t, natsio, "tls://"+l.Addr().String(), nil), v1alpha1.ReasonTLSVerificationFailed)
}

func TestDriversWithoutAServerAreNotProbed(t *testing.T) {
	for driver, text := range map[v1alpha1.Driver]string{
		v1alpha1.DriverSQLite: "sqlite:///data/app.db", v1alpha1.DriverFS: "/data", v1alpha1.DriverMemory: "memory://",
	} {
		got := probe(t, driver, text, nil)
		if expect(t, got, v1alpha1.ReasonNotProbed); !got.Valid() {
			t.Errorf("%s is not valid", driver)
		}
	}
	expect(t, datastore.NewProber(datastore.ProberOptions{}).Probe(t.Context(), datastore.Endpoint{}), v1alpha1.ReasonInternalError)
}
