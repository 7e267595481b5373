// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/formspec/formspec-operator/test/clustercontrol"
)

// options are the flags.
type options struct {
	bindAddress      string
	adminBindAddress string
	data             string
	trustedKeys      []string
	meteringInterval time.Duration
	tlsCertFile      string
	tlsKeyFile       string
	clientCAFile     string
	selfSignedDir    string
	selfSignedHosts  []string
	dev              bool
}

func newOptions() *options {
	return &options{
		bindAddress:      ":9443",
		adminBindAddress: "127.0.0.1:9080",
		meteringInterval: 5 * time.Minute,
		selfSignedHosts:  []string{"localhost", "127.0.0.1"},
	}
}

func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.bindAddress, "bind-address", o.bindAddress, "Address that serves the wire protocol.")
	fs.StringVar(&o.adminBindAddress, "admin-bind-address", o.adminBindAddress, "Address that serves the page and /admin/, over HTTP and to whoever asks. 0: none.")
	fs.StringVar(&o.data, "data", o.data, "File of the log. Empty: a temporary one, which is removed at the end.")
	fs.StringArrayVar(&o.trustedKeys, "trusted-key", o.trustedKeys, "Public key of an operator in hex, or CLUSTER=KEY for one that may speak for that cluster only. May be given more than once.")
	fs.DurationVar(&o.meteringInterval, "metering-interval", o.meteringInterval, "What metering slots are multiples of: the operator's --metering-interval.")
	fs.StringVar(&o.tlsCertFile, "tls-cert-file", o.tlsCertFile, "Certificate for the wire protocol.")
	fs.StringVar(&o.tlsKeyFile, "tls-key-file", o.tlsKeyFile, "Private key of --tls-cert-file.")
	fs.StringVar(&o.clientCAFile, "client-ca-file", o.clientCAFile, "Authorities of client certificates. Empty: clients need none.")
	fs.StringVar(&o.selfSignedDir, "self-signed-dir", o.selfSignedDir, "Directory for a self-signed certificate, made if it is not there. Its tls.crt is what the operator trusts with --control-ca-file.")
	fs.StringSliceVar(&o.selfSignedHosts, "self-signed-host", o.selfSignedHosts, "Comma-separated host names and IP addresses of the self-signed certificate.")
	fs.BoolVar(&o.dev, "dev", o.dev, "Trust the first key that speaks for a cluster without verifying its signatures, and serve HTTP where no certificate is given. For development only.")
}

// validate returns every mistake at once, each with the flag to change.
func (o *options) validate() error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if (o.tlsCertFile == "") != (o.tlsKeyFile == "") {
		refuse("--tls-cert-file and --tls-key-file: each needs the other")
	}
	if o.tlsCertFile != "" && o.selfSignedDir != "" {
		refuse("--self-signed-dir: has no use with --tls-cert-file")
	}
	if !o.secure() && !o.dev {
		refuse("--tls-cert-file or --self-signed-dir: one is required without --dev")
	}
	if o.clientCAFile != "" && !o.secure() {
		refuse("--client-ca-file: needs --tls-cert-file or --self-signed-dir")
	}
	if o.selfSignedDir != "" && len(o.selfSignedHosts) == 0 {
		refuse("--self-signed-host: must not be empty")
	}
	if o.meteringInterval < time.Second {
		refuse("--metering-interval: must be at least 1s, is %s", o.meteringInterval)
	}
	if _, err := o.keys(); err != nil {
		refuse("--trusted-key: %w", err)
	}
	return errors.Join(errs...)
}

func (o *options) secure() bool { return o.tlsCertFile != "" || o.selfSignedDir != "" }

func (o *options) keys() ([]clustercontrol.TrustedKey, error) {
	keys := make([]clustercontrol.TrustedKey, len(o.trustedKeys))
	for i, text := range o.trustedKeys {
		cluster, public, bound := strings.Cut(text, "=")
		if !bound {
			cluster, public = "", text
		}
		key, err := clustercontrol.ParseKey(public)
		if err != nil {
			return nil, err
		}
		keys[i] = clustercontrol.TrustedKey{Public: key, Cluster: cluster}
	}
	return keys, nil
}
