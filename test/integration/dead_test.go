// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// Datastores that do not answer hold nobody up. FR-24. Not parallel: it compares times.
func TestDeadDatastores(t *testing.T) {
	s := given(t)
	me, class := s.publishedOwner(), s.class()
	count := 0
	takes := func() time.Duration { // until a datastore and a Workspace are in use: the middle of five, because machines have better things to do
		var each []time.Duration
		for range 5 {
			count++
			name, user := fmt.Sprintf("good-%d", count), s.login()
			start := time.Now()
			me.datastore(name, v1alpha1.DriverPostgres, user.uri())
			me.grant(name, name, name)
			s.workspace(name, class, lists(name, v1alpha1.DriverPostgres)).ready()
			each = append(each, time.Since(start))
		}
		slices.Sort(each)
		return each[2]
	}
	takes() // the first is slower
	without := takes()

	// given
	silent, calls := s.silentServer()
	dropping := s.droppingServer()
	var dead []*store
	for i := range 25 { // the machine has many addresses, so that they are as many hosts
		for name, port := range map[string]int{"silent": silent, "dropping": dropping} {
			dead = append(dead, me.datastore(fmt.Sprintf("%s-%d", name, i), v1alpha1.DriverPostgres,
				fmt.Sprintf("postgres://u:p@127.0.1.%d:%d/db?sslmode=disable", i+1, port)))
		}
	}
	s.eventually("the dead are being probed", func() error {
		if n := calls.Load(); n < 25 {
			return fmt.Errorf("%d of 25 have been called", n)
		}
		return nil
	})

	// then
	with := takes()
	t.Logf("without the dead %s, with them %s", without, with)
	if with > 2*without+time.Second/2 {
		t.Errorf("it took %s, and %s without datastores that are dead", with, without)
	}
	for _, ds := range dead {
		ds.failing(v1alpha1.ReasonUnreachable)
	}
	if again := takes(); again > 2*without+time.Second {
		t.Errorf("later it took %s, and %s without datastores that are dead", again, without)
	}
}

// silentServer takes every call and never says a word.
func (s *scenario) silentServer() (port int, calls *atomic.Int32) {
	s.Helper()
	listener, err := net.Listen("tcp4", "0.0.0.0:0")
	s.must("listen", err)
	s.Cleanup(func() { listener.Close() })
	calls = &atomic.Int32{}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			calls.Add(1)
			s.Cleanup(func() { conn.Close() })
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port, calls
}

// droppingServer is one whose queue is full: what is sent to it is dropped.
func (s *scenario) droppingServer() (port int) {
	s.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	s.must("make a socket", err)
	s.Cleanup(func() { syscall.Close(fd) })
	s.must("bind", syscall.Bind(fd, &syscall.SockaddrInet4{}))
	s.must("listen", syscall.Listen(fd, 0))
	name, err := syscall.Getsockname(fd)
	s.must("ask for the port", err)
	port = name.(*syscall.SockaddrInet4).Port
	address := fmt.Sprintf("127.0.0.1:%d", port)
	for range 10 { // until one does not get through any more
		conn, err := net.DialTimeout("tcp", address, 300*time.Millisecond)
		if err != nil {
			return port
		}
		s.Cleanup(func() { conn.Close() })
	}
	s.Fatal("the queue does not fill up")
	return 0
}
