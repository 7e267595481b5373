// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activator

import "golang.org/x/sys/unix"

// hungUp says whether the other end of a socket has closed it, also if there are bytes that were not read.
func hungUp(fd int) bool {
	const gone = unix.POLLRDHUP | unix.POLLHUP | unix.POLLERR
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n > 0 && poll[0].Revents&gone != 0
}
