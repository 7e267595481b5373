// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// lookEvery is how often a draining activator looks whether Workspaces are still led to it.
const lookEvery = 2 * time.Second

// waitUntilLeft returns when no Workspace is led to this process any more, or ctx ends: the operator writes one EndpointSlice for each of
// thousands, and nobody knows how long that takes. waited is false if none was led here from the beginning.
func (a *Activator) waitUntilLeft(ctx context.Context, listener net.Addr) (waited bool) {
	logger := klog.FromContext(ctx)
	for {
		led, err := a.ledTo(ctx, listener)
		if err == nil && led == 0 {
			return waited
		}
		logger.V(2).Info("Workspaces are still led here", "count", led, "err", err)
		waited = true
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			logger.Info("Not waiting any longer for Workspaces to be led to other replicas", "count", led, "err", err)
			return waited
		}
	}
}

// ledTo counts the EndpointSlices of the operator's that lead to this process. There is no cache of them: who does not stop does not care.
func (a *Activator) ledTo(ctx context.Context, listener net.Addr) (int, error) {
	_, port, err := net.SplitHostPort(listener.String())
	if err != nil {
		return 0, fmt.Errorf("read the own port: %w", err)
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return 0, fmt.Errorf("read the own addresses: %w", err)
	}
	// Version 0: what the API server has in its memory is new enough, and cheap.
	list, err := a.config.Write.DiscoveryV1().EndpointSlices(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		LabelSelector: discoveryv1.LabelManagedBy + "=" + v1alpha1.ManagedBy, ResourceVersion: "0",
	})
	if err != nil {
		return 0, fmt.Errorf("list EndpointSlices: %w", err)
	}
	led := 0
	for i := range list.Items {
		if slices.ContainsFunc(readyAddresses(&list.Items[i]), func(address string) bool { return isOneOf(own, port, address) }) {
			led++
		}
	}
	return led, nil
}

func isOneOf(own []net.Addr, port, address string) bool {
	host, p, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && p == port && slices.ContainsFunc(own, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip)
	})
}
