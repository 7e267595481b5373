// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
)

var errHungUp = errors.New("the client hung up")

// client is a connection that requests come on.
type client struct {
	conn    net.Conn
	uploads atomic.Int32 // requests with a body that wait, of HTTP/2
}

type clientKey struct{}

// withClient is the ConnContext of the server.
func withClient(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, clientKey{}, &client{conn: conn})
}

func clientOf(ctx context.Context) *client {
	c, _ := ctx.Value(clientKey{}).(*client)
	return c
}

// present returns an error when the client has closed the connection, without reading from it.
func (c *client) present() error {
	socket, ok := c.conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return errHungUp
	}
	gone := false
	if err := raw.Control(func(fd uintptr) { gone = hungUp(int(fd)) }); err != nil || gone {
		return errHungUp
	}
	return nil
}
