// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

func TestHasKEDA(t *testing.T) {
	for name, row := range map[string]struct {
		code  int
		body  string
		want  bool
		fails bool
	}{
		"the kind is there":       {200, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"http.keda.sh/v1alpha1","resources":[{"name":"httpscaledobjects","kind":"HTTPScaledObject"}]}`, true, false},
		"others of the group are": {200, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"http.keda.sh/v1alpha1","resources":[{"name":"others","kind":"Other"}]}`, false, false},
		"there is no such group":  {404, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`, false, false},
		"nobody knows":            {500, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":500}`, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/apis/http.keda.sh/v1alpha1" {
					t.Errorf("asks for %s", r.URL.Path)
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(row.code)
				fmt.Fprint(w, row.body)
			}))
			defer server.Close()
			got, err := hasKEDA(t.Context(), &rest.Config{Host: server.URL})
			if got != row.want || (err != nil) != row.fails {
				t.Errorf("got %v, error %v", got, err)
			}
		})
	}
}
