// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package metering

// Readings counts what is kept.
func (b *Book) Readings() (n int) {
	for _, readings := range b.readings {
		n += len(readings)
	}
	return n
}
