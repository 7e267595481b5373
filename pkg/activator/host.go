// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activator

import "strings"

const (
	maxHost  = 253 // RFC 1035, without the trailing dot
	maxLabel = 63
)

// hostName returns the DNS name in the Host of a request: in lower case, without a port and the trailing dot. ok is false for anything that
// is no DNS name, such as an IP address in brackets. Underscores pass: they are in no name of ours, but no reason to say what is wrong.
func hostName(host string) (name string, ok bool) {
	name, port, _ := strings.Cut(host, ":")
	if strings.Trim(port, "0123456789") != "" {
		return "", false // no port, or several colons: an IPv6 address
	}
	name = strings.TrimSuffix(name, ".")
	if name == "" || len(name) > maxHost {
		return "", false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > maxLabel {
			return "", false
		}
		for _, c := range []byte(label) {
			if c != '-' && c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
				return "", false
			}
		}
	}
	return strings.ToLower(name), true // now ASCII only: no other letter becomes one of these
}

// serviceName returns the Service that a name stands for in the cluster's DNS: service.namespace, with or without svc and a cluster domain.
// Which domain does not matter, since the name has led here. A name without a namespace is nobody's: it means another Service in each
// namespace, and a request does not tell where it comes from.
func serviceName(name string) (service, namespace string, ok bool) {
	service, rest, ok := strings.Cut(name, ".")
	if !ok {
		return "", "", false
	}
	namespace, rest, more := strings.Cut(rest, ".")
	if more && rest != "svc" && !strings.HasPrefix(rest, "svc.") {
		return "", "", false
	}
	return service, namespace, true
}
