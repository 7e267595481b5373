// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package activator

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
)

// at asks the activator with a Host.
func (r *rig) at(host string) answer {
	r.Helper()
	request := r.request(r.Context(), "GET", "/", nil)
	request.Host = host
	return do(newClient(r, false), request)
}

func TestHostsOfAWorkspace(t *testing.T) {
	r := newRig(t, nil)
	r.pods("shop", newPod(t, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-Host", r.Host) }))
	for _, host := range []string{
		"formspec-resource-shop.bank", "formspec-resource-shop.bank:80", "formspec-resource-shop.bank.svc", "Formspec-Resource-Shop.Bank.SVC.",
		"formspec-resource-shop.bank.svc.cluster.local:8080", "shop.apps.example.com", "SHOP.apps.example.com.:443",
	} {
		if got := r.at(host); got.code != http.StatusOK || got.header.Get("X-Host") != host {
			t.Errorf("%s: %d, the pod was asked for %q", host, got.code, got.header.Get("X-Host"))
		}
	}
	for _, host := range []string{
		"formspec-resource-shop", "formspec-resource-shop.shop", "shop.bank", "formspec-resource-shop-pods.bank", "other.apps.example.com", "127.0.0.1", "[::1]",
		"formspec-resource-shop.bank.example.com",
	} {
		got := r.at(host)
		if got.code != http.StatusNotFound || !strings.Contains(got.body, host) || !strings.Contains(got.body, "spec.hosts") {
			t.Errorf("%s: %+v", host, got)
		}
	}
}

func TestHostsChangeHands(t *testing.T) {
	r := newRig(t, nil)
	r.pods("shop", newPod(t, hello))
	code := func(host string) func(int) {
		return func(want int) {
			t.Helper()
			r.eventually(host+" answers otherwise", func() bool { return r.at(host).code == want })
		}
	}
	shopAnswers, newAnswers := code("shop.apps.example.com"), code("new.apps.example.com")
	shopAnswers(http.StatusOK)
	newAnswers(http.StatusNotFound)

	ws := shop()
	ws.Spec.Hosts = []string{"new.apps.example.com"}
	update(t, r, ws)
	newAnswers(http.StatusOK)
	shopAnswers(http.StatusNotFound)

	class := economy()
	class.Spec.HostSuffixes = nil
	if _, err := r.formspec.FormspecV1alpha1().ClusterClasses().Update(t.Context(), class, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	newAnswers(http.StatusNotFound)
}

// Whose a host is, the operator's status says first: an older Workspace that claims it later does not get it.
func TestWhoHasAHostKeepsIt(t *testing.T) {
	young, old := shop(), shop()
	young.CreationTimestamp = metav1.NewTime(time.Date(2026, 7, 10, 10, 0, 0, 0, time.UTC))
	old.Name, old.UID, old.CreationTimestamp = "old", "uid-old", metav1.NewTime(time.Date(2026, 7, 9, 10, 0, 0, 0, time.UTC))
	young.Status.Hosts = young.Spec.Hosts
	r := newRig(t, nil, economy(), young, old)
	r.pods("shop", newPod(t, hello))
	r.pods("old", newPod(t, mirror))
	if got := r.at("shop.apps.example.com"); got.body != "hello" {
		t.Errorf("got %+v", got)
	}
	young.Status.Hosts = nil
	update(t, r, young)
	r.eventually("the host still leads to who has it no longer", func() bool { return r.at("shop.apps.example.com").body != "hello" })
}

func update(t *testing.T, r *rig, ws *v1alpha1.Workspace) {
	t.Helper()
	if _, err := r.formspec.FormspecV1alpha1().Workspaces(ws.Namespace).Update(t.Context(), ws, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A claim cannot take the name of somebody's Service, whatever suffix a class allows.
func TestTheNameOfAServiceCannotBeClaimed(t *testing.T) {
	class, thief := economy(), shop()
	class.Spec.HostSuffixes = []string{"bank.svc.cluster.local"}
	thief.Namespace, thief.Name, thief.UID = "thief", "a", "uid-thief"
	thief.Spec.Hosts = []string{shopHost}
	r := newRig(t, nil, class, thief, shop())
	r.pods("shop", newPod(t, hello))
	if got := r.at(shopHost); got.body != "hello" {
		t.Errorf("got %+v", got)
	}
}

func TestTheRequestOfADeletedWorkspaceEnds(t *testing.T) {
	r := newRig(t, nil)
	answers := start(newClient(t, false), r.request(t.Context(), "GET", "/", nil))
	r.waitsFor(1)
	if err := r.formspec.FormspecV1alpha1().Workspaces("bank").Delete(t.Context(), "shop", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := <-answers; got.code != http.StatusNotFound {
		t.Errorf("got %+v", got)
	}
	r.waitsFor(0)
}

func TestNoForwardProxy(t *testing.T) {
	r := newRig(t, nil)
	c := dialRaw(t, r.address, "CONNECT example.com:443 HTTP/1.1\nHost: example.com:443\n\n")
	if got := c.head(t); !strings.HasPrefix(got, "HTTP/1.1 405 ") {
		t.Errorf("got %q", got)
	}
	// In absolute form the address counts, and Host does not (RFC 9112 section 3.2.2).
	r.pods("shop", newPod(t, mirror))
	c = dialRaw(t, r.address, "GET http://user:secret@"+shopHost+"/x?y HTTP/1.1\nHost: example.com\n\n")
	if _, body := c.answer(t); !strings.Contains(body, `"URI":"/x?y","Host":"`+shopHost+`"`) || strings.Contains(body, "Authorization") {
		t.Errorf("the pod saw %s", body)
	}
}

func TestTheStartingPage(t *testing.T) {
	class := economy()
	class.Annotations = map[string]string{v1alpha1.AnnotationStartingPage: "true"}
	r := newRig(t, nil, class, shop())
	client := newClient(t, false)
	page := func(method, accept string) *http.Request {
		request := r.request(t.Context(), method, "/", nil)
		request.Header.Set("Accept", accept)
		return request
	}
	got := do(client, page("GET", "text/html,application/xhtml+xml,*/*;q=0.8"))
	if got.code != http.StatusServiceUnavailable || !strings.Contains(got.body, `http-equiv="refresh"`) || got.header.Get("Cache-Control") != "no-store" || got.header.Get("Retry-After") == "" {
		t.Errorf("got %+v", got)
	}
	r.eventually("the Workspace was woken", func() bool { return r.leaseWrites() > 0 })
	var held []<-chan answer
	for _, request := range []*http.Request{page("GET", "application/json"), page("GET", "*/*"), page("POST", "text/html")} {
		held = append(held, start(client, request))
	}
	r.waitsFor(3)
	r.pods("shop", newPod(t, hello))
	for _, answers := range held {
		if got := <-answers; got.body != "hello" {
			t.Errorf("got %+v", got)
		}
	}
	// The pod is Ready, and perhaps not dialled yet: the page that reloads gets the app.
	if got := do(client, page("GET", "text/html")); got.body != "hello" {
		t.Errorf("got %+v", got)
	}
}

func TestNoStartingPageUnlessTheClassHasIt(t *testing.T) {
	r := newRig(t, nil)
	ctx, hangUp := context.WithCancel(t.Context())
	request := r.request(ctx, "GET", "/", nil)
	request.Header.Set("Accept", "text/html")
	start(newClient(t, false), request)
	r.waitsFor(1)
	hangUp()
	r.waitsFor(0)
}
