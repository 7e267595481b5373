// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
)

// resp speaks as much of the Redis protocol (RESP2) as a probe needs: one command, one reply that is a status, an error,
// a number or a string. The client libraries trust their server: there is one that a reply of sixteen bytes, which claims
// to be a long array, makes allocate until the process dies. A tenant chooses what answers here.
type resp struct {
	conn io.Writer
	in   *bufio.Reader
}

// respError is an error that the server replied with, such as "WRONGPASS invalid username-password pair".
type respError string

// Error does not repeat what the server said.
func (respError) Error() string { return "the server replied with an error" }

var errReply = errors.New("not a reply of the Redis protocol")

// maxReply is more than the longest answer to INFO memory.
const maxReply = 64 << 10

func newRESP(conn net.Conn) *resp {
	return &resp{conn: conn, in: bufio.NewReaderSize(conn, 4096)}
}

// do runs one command.
func (r *resp) do(arguments ...string) (string, error) {
	var b strings.Builder
	b.WriteString("*" + strconv.Itoa(len(arguments)) + "\r\n")
	for _, a := range arguments {
		b.WriteString("$" + strconv.Itoa(len(a)) + "\r\n" + a + "\r\n")
	}
	if _, err := io.WriteString(r.conn, b.String()); err != nil {
		return "", err
	}
	line, err := r.in.ReadSlice('\n') // no longer than the buffer
	if err != nil {
		return "", err
	}
	reply, complete := strings.CutSuffix(string(line), "\r\n")
	if !complete || reply == "" {
		return "", errReply
	}
	switch kind, text := reply[0], reply[1:]; kind {
	case '+', ':':
		return text, nil
	case '-':
		return "", respError(text)
	case '$':
		length, err := strconv.Atoi(text)
		if err != nil || length < 0 || length > maxReply {
			return "", errReply
		}
		bulk := make([]byte, length+len("\r\n"))
		_, err = io.ReadFull(r.in, bulk)
		return string(bulk[:length]), err
	}
	return "", errReply
}
