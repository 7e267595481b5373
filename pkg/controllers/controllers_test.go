// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package controllers_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/formspec/formspec-operator/pkg/controllers"
)

// fake is a controller that ends some time after it is told to, or with an error before.
type fake struct {
	name  string
	drain time.Duration
	fails error
	ended bool
}

func (f *fake) Name() string { return f.name }

func (f *fake) Run(ctx context.Context, _ int) error {
	defer func() { f.ended = true }()
	if f.fails != nil {
		return f.fails
	}
	<-ctx.Done()
	<-time.After(f.drain)
	return context.Cause(ctx)
}

func TestRun(t *testing.T) {
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		list     []controllers.Controller
		wantErr  []string // none: no error
		wantTime time.Duration
	}{
		"without controllers it waits for the signal": {
			wantTime: time.Minute,
		},
		"the slowest ends the drain": {
			list:     []controllers.Controller{&fake{name: "a", drain: time.Second}, &fake{name: "b", drain: 29 * time.Second}},
			wantTime: time.Minute + 29*time.Second,
		},
		"those that do not end in time are named": {
			list: []controllers.Controller{
				&fake{name: "c", drain: time.Hour}, &fake{name: "a", drain: time.Hour}, &fake{name: "b", drain: time.Second},
			},
			wantErr:  []string{"still running: a, c"},
			wantTime: time.Minute + 30*time.Second,
		},
		"one that fails stops the others": {
			list:     []controllers.Controller{&fake{name: "a", drain: time.Second}, &fake{name: "b", fails: broken}},
			wantErr:  []string{"run controller b: broken"},
			wantTime: time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, signal := context.WithTimeout(t.Context(), time.Minute)
				defer signal()
				start := time.Now()
				err := controllers.Run(ctx, test.list, 1, 30*time.Second)
				if took := time.Since(start); took != test.wantTime {
					t.Errorf("took %s, want %s", took, test.wantTime)
				}
				if (err == nil) != (len(test.wantErr) == 0) {
					t.Errorf("got %v, want %q", err, test.wantErr)
				}
				for _, want := range test.wantErr {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("got %v, want %q", err, want)
					}
				}
				if test.wantErr == nil {
					for _, c := range test.list {
						if !c.(*fake).ended {
							t.Errorf("%s has not returned", c.Name())
						}
					}
				}
				<-time.After(time.Hour) // those left running end, too
			})
		})
	}
}

func TestCheckNames(t *testing.T) {
	a, b, unnamed := &fake{name: "a"}, &fake{name: "b"}, &fake{}
	if err := controllers.CheckNames([]controllers.Controller{a, b}); err != nil {
		t.Error(err)
	}
	err := controllers.CheckNames([]controllers.Controller{a, b, unnamed, a})
	for _, want := range []string{"two controllers are named a", "has no name"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
