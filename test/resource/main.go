// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Command resource stands in for the generic image formahub/formspec-resource in tests on real nodes. Seen from outside it behaves as
// the real one does: it listens on port 8080, answers GET /health when it has started, writes an executable into its data folder and
// runs it (here: itself, with the argument "handler"), ends gracefully, and needs neither root nor a writable root filesystem.
//
// Beyond that it shows what reaches a pod and carries every kind of traffic:
//
//	/                      the request as it arrived, the Workspace, the pod, and what the executable said at the start
//	/config                what the executable says now of the files in /etc/formspec
//	/env                   the names, never the values, of the variables that begin with FORMSPEC_ or FORMA_
//	/connect?name=VARIABLE connects to the datastore whose connection string is in the variable
//	/slow?seconds=N        answers after N seconds
//	/upload                size, SHA-256 and trailers of the request's body, which it streams
//	/ws                    a WebSocket that echoes messages
//	/sse?count=N&every=D   N events, one each D (100 ms), without N until the client hangs up
//	/grpc                  echoes an HTTP/2 stream message by message, and ends with trailers as gRPC does; h2c works everywhere
//
// Its environment slows it down, see options.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// address is the port of the contract, section 2.
const address = ":8080"

// grace is how long running requests may take after a signal. Kubernetes kills the pod 30 s after the signal, 5 of which are its preStop hook.
const grace = 20 * time.Second

func main() {
	if len(os.Args) > 1 && os.Args[1] == handlerArgument {
		if err := printConfig(os.Stdout, configDir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Getenv)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run starts, serves until the context ends, and lets running requests end.
func run(ctx context.Context, getenv func(string) string) error {
	o, err := newOptions(getenv)
	if err != nil {
		return err
	}
	started := make(chan struct{})
	time.AfterFunc(o.startDelay, func() { close(started) })
	binary, err := install(ctx, o.dataDir)
	if err != nil {
		return err
	}
	if !o.listenEarly {
		select {
		case <-started:
		case <-ctx.Done():
			return nil
		}
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return serve(ctx, listener, newServer(o, binary, started))
}

// serve returns nil if the server ended because the context did, and no request was cut off.
func serve(ctx context.Context, listener net.Listener, s *server) error {
	web := &http.Server{Handler: s.handler(), ReadHeaderTimeout: time.Minute, Protocols: new(http.Protocols)}
	web.Protocols.SetHTTP1(true)
	web.Protocols.SetUnencryptedHTTP2(true)
	web.RegisterOnShutdown(s.stop)
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := web.Shutdown(ending); err != nil {
		return fmt.Errorf("requests were still running %s after the signal: %w", grace, err)
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	s.sockets.Wait() // which Shutdown does not know
	return nil
}
