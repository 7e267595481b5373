// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/datastore"
	"github.com/formspec/formspec-operator/test/servers"
)

// Every password works that a server accepts, if it is percent-encoded; what is not is refused whole. FR-19.
func TestSpecialCharactersInPasswords(t *testing.T) {
	t.Parallel()
	s := given(t)
	me, class := s.publishedOwner(), s.class()
	for name, password := range map[string]string{"comma": `Lgrd}oKjF287_nUn6,=s<:O|`, "everything": `p@:/?#[]%41 &+$"'\äß`} {
		user := s.login()
		user.changePassword(password)
		pg := me.datastore(name, v1alpha1.DriverPostgres, user.uri()).ready()
		me.grant(name, name, name)
		shop := s.workspace(name, class, lists(name, v1alpha1.DriverPostgres)).ready()
		if have := string(pg.managed().Data[datastore.KeyPassword]); have != password {
			t.Errorf("the password in the managed Secret is %q, want %q", have, password)
		}
		values, err := shop.environmentOf()
		s.must("read the environment", err)
		prefix := "FORMSPEC_DATASTORE_" + strings.ToUpper(name) + "_"
		if have := values[prefix+"PASSWORD"]; have != password {
			t.Errorf("the password in the environment is %q, want %q", have, password)
		}
		if err := s.connects(values[prefix+"DSN"], user.user); err != nil {
			t.Errorf("%q: %v", password, err)
		}

		raw := me.datastore(name+"-raw", v1alpha1.DriverPostgres,
			fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d/app?sslmode=disable", user.user, password, user.server.Port))
		raw.failing(v1alpha1.ReasonInvalidConnectionString, "percent-encode")
		if raw.managed() != nil {
			t.Errorf("a raw %q became credentials", password)
		}
	}
}

// Users and passwords of Redis and Valkey, in every form. FR-21.
func TestRedisUsers(t *testing.T) {
	t.Parallel()
	s := given(t)
	me := s.publishedOwner()
	acl := servers.Redis(t, servers.RedisOptions{Users: []string{
		"user default off", "user app on >s3cret ~* +@all", "user mute on >s3cret ~* +@all -ping", "user stuck on >s3cret ~* +@all -select",
	}})
	open := servers.Redis(t, servers.RedisOptions{})
	shared := fmt.Sprintf("127.0.0.1:%d", s.redis().Port)
	type row struct {
		driver v1alpha1.Driver
		uri    string
		reason string // why it fails; empty: it works
		text   string
		ends   []string
	}
	at := func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
	rows := map[string]row{
		"user":           {v1alpha1.DriverRedis, "redis://app:s3cret@" + at(acl.Port), "", "", []string{"USER", "PASSWORD"}},
		"valkey":         {v1alpha1.DriverValkey, "valkey://app:s3cret@" + at(acl.Port) + "/3", "", "", []string{"USER", "PASSWORD", "DATABASE"}},
		"password":       {v1alpha1.DriverValkey, "redis://:open%20sesame@" + shared, "", "", []string{"PASSWORD"}},
		"nothing":        {v1alpha1.DriverRedis, "redis://" + at(open.Port), "", "", nil},
		"mute":           {v1alpha1.DriverRedis, "redis://mute:s3cret@" + at(acl.Port), "", "may not run PING", []string{"USER", "PASSWORD"}},
		"no-password":    {v1alpha1.DriverRedis, "redis://" + shared, v1alpha1.ReasonAuthenticationFailed, "NOAUTH", nil},
		"default-is-off": {v1alpha1.DriverRedis, "redis://:s3cret@" + at(acl.Port), v1alpha1.ReasonAuthenticationFailed, "WRONGPASS", nil},
		"wrong":          {v1alpha1.DriverValkey, "redis://app:wrong@" + at(acl.Port), v1alpha1.ReasonAuthenticationFailed, "WRONGPASS", nil},
		"stuck":          {v1alpha1.DriverRedis, "redis://stuck:s3cret@" + at(acl.Port) + "/3", v1alpha1.ReasonPermissionDenied, "NOPERM", nil},
		"no-database":    {v1alpha1.DriverRedis, "redis://app:s3cret@" + at(acl.Port) + "/99", v1alpha1.ReasonDatabaseNotFound, "", nil},
	}
	shop := s.workspace("shop", s.class())
	var want []string
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		me.datastore(name, rows[name].driver, rows[name].uri)
		me.grant(name, name, "shop")
		if rows[name].reason == "" {
			want = append(want, variables(name, append([]string{"DSN", "HOST", "PORT", "PERMISSION"}, rows[name].ends...)...)...)
		}
	}
	for name, row := range rows {
		ds := &store{scenario: s, name: name}
		if row.reason != "" {
			ds.failing(row.reason, row.text)
			continue
		}
		ds.ready()
		if err := datastoreSubject(ds.get()).has(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonValidated, row.text); err != nil {
			t.Error(err)
		}
	}
	shop.injects(want...)
	values, err := shop.environmentOf()
	s.must("read the environment", err)
	for _, name := range []string{"USER", "VALKEY", "PASSWORD", "NOTHING"} {
		uri := values["FORMSPEC_DATASTORE_"+name+"_DSN"]
		if out, err := redisCLI(s, strings.Replace(uri, "valkey://", "redis://", 1), "SET", "key", "value"); err != nil || out != "OK" {
			t.Errorf("with the connection string of %s a client gets %q (%v)", name, out, err)
		}
	}
}

// redisCLI runs a command with Redis' own client, which does not fail when the server does.
func redisCLI(s *scenario, uri string, command ...string) (string, error) {
	s.Helper()
	parsed, err := url.Parse(uri)
	if err != nil {
		return "", err
	}
	args := []string{"--no-auth-warning", "-u", uri}
	if parsed.User != nil && parsed.User.Username() == "" { // old ones do not understand an empty user
		password, _ := parsed.User.Password()
		args = []string{"--no-auth-warning", "-h", parsed.Hostname(), "-p", parsed.Port(), "-a", password}
	}
	for _, name := range []string{"redis-cli", "valkey-cli"} {
		if path, err := exec.LookPath(name); err == nil {
			out, err := exec.CommandContext(s.Context(), path, append(args, command...)...).CombinedOutput()
			return strings.TrimSpace(string(out)), err
		}
	}
	return "", exec.ErrNotFound
}

// What a connection string says about TLS is done, or refused. FR-23.
func TestTLS(t *testing.T) {
	t.Parallel()
	s := given(t)
	me, authority := s.publishedOwner(), servers.NewAuthority(t)
	certificate, key := authority.Certificate(t, "localhost")
	pg := servers.Postgres(t, servers.PostgresOptions{Certificate: certificate, Key: key, Access: []string{"hostssl all all 127.0.0.1/32 scram-sha-256", "hostssl all all ::1/128 scram-sha-256"}})
	pg.Exec(t, "CREATE ROLE app LOGIN PASSWORD 'pw'")
	redis := servers.Redis(t, servers.RedisOptions{Certificate: certificate, Key: key})
	postgres := func(host, mode string) string {
		return fmt.Sprintf("postgres://app:pw@%s:%d/postgres?sslmode=%s", host, pg.Port, mode)
	}
	rows := map[string]struct {
		driver v1alpha1.Driver
		uri    string
		ca     bool
		reason string // why it fails; empty: it works
	}{
		"full-without-authority": {v1alpha1.DriverPostgres, postgres("localhost", "verify-full"), false, v1alpha1.ReasonTLSVerificationFailed},
		"full":                   {v1alpha1.DriverPostgres, postgres("localhost", "verify-full"), true, ""},
		"full-of-another-host":   {v1alpha1.DriverPostgres, postgres("127.0.0.1", "verify-full"), true, v1alpha1.ReasonTLSVerificationFailed},
		"ca-of-another-host":     {v1alpha1.DriverPostgres, postgres("127.0.0.1", "verify-ca"), true, ""},
		"ca-without-authority":   {v1alpha1.DriverPostgres, postgres("127.0.0.1", "verify-ca"), false, v1alpha1.ReasonTLSVerificationFailed},
		"require":                {v1alpha1.DriverPostgres, postgres("127.0.0.1", "require"), false, ""},
		"bogus":                  {v1alpha1.DriverPostgres, postgres("localhost", "bogus"), true, v1alpha1.ReasonUnsupportedTLSMode},
		"disable":                {v1alpha1.DriverPostgres, postgres("localhost", "disable"), true, v1alpha1.ReasonAuthenticationFailed},
		"file":                   {v1alpha1.DriverPostgres, postgres("localhost", "verify-full") + "&sslrootcert=/etc/passwd", false, v1alpha1.ReasonUnsupportedOption},
		"rediss":                 {v1alpha1.DriverRedis, fmt.Sprintf("rediss://localhost:%d", redis.Port), true, ""},
		"rediss-unknown":         {v1alpha1.DriverRedis, fmt.Sprintf("rediss://localhost:%d", redis.Port), false, v1alpha1.ReasonTLSVerificationFailed},
		"valkeys-another-host":   {v1alpha1.DriverValkey, fmt.Sprintf("valkeys://127.0.0.1:%d", redis.Port), true, v1alpha1.ReasonTLSVerificationFailed},
	}
	for name, row := range rows {
		data := map[string]string{endpointKey: row.uri}
		if row.ca {
			data[datastore.KeyCA] = string(authority.PEM)
		}
		s.secret(name, data)
		me.datastore(name, row.driver, "")
	}
	for name, row := range rows {
		ds := &store{scenario: s, name: name}
		if row.reason != "" {
			ds.failing(row.reason)
			if ds.managed() != nil {
				t.Errorf("%s: there are credentials", name)
			}
			continue
		}
		ds.ready()
		if have := string(ds.managed().Data[datastore.KeyCA]); row.ca && have != string(authority.PEM) {
			t.Errorf("%s: the authority is not handed on", name)
		}
	}
}

// A Datastore reaches no Secret but one of its own namespace that holds a connection string, and does not tell what it finds on the network.
// FR-45.
func TestNothingCrossesNamespaces(t *testing.T) {
	t.Parallel()
	s := given(t)
	me, user := s.publishedOwner(), s.login()
	other := s.namespace + "-other"
	s.createNamespace(other)
	t.Cleanup(func() {
		s.must("delete a namespace", s.kube.CoreV1().Namespaces().Delete(contextBeyond(t), other, metav1.DeleteOptions{}))
	})
	_, err := s.kube.CoreV1().Secrets(other).Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}, StringData: map[string]string{endpointKey: user.uri()}}, metav1.CreateOptions{})
	s.must("create a foreign Secret", err)
	s.kubectl("create", "-f", s.write("account.yaml", fmt.Sprintf(`{"apiVersion": "v1", "kind": "List", "items": [
		{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot", "namespace": %[1]q}},
		{"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
		 "metadata": {"name": "robot", "namespace": %[1]q, "annotations": {"kubernetes.io/service-account.name": "robot"}}}]}`, s.namespace)))
	s.eventually("the service account has a token", func() error {
		if len(s.readSecret("robot").Data["token"]) == 0 {
			return errors.New("there is none")
		}
		return nil
	})

	// the schema knows no other namespace
	if err := s.dryRun("Datastore", "{driver: postgres, endpointSecretRef: {name: a, key: b, namespace: kube-system}}"); err == nil {
		t.Error("endpointSecretRef has a namespace")
	}
	for _, field := range []string{"namespace", "datastoreNamespace", "workspaceNamespace"} {
		if err := s.dryRun("ResourceClaim", "{datastore: a, workspace: b, "+field+": kube-system}"); err == nil {
			t.Errorf("a claim has the field %s", field)
		}
	}

	// a name is a name
	for i, name := range []string{other + "/foreign", "../" + other + "/foreign", "../../namespaces/" + other + "/secrets/foreign", "..", "foreign?x=y", "foreign"} {
		ds := me.newDatastore(fmt.Sprintf("name-%d", i), v1alpha1.DriverPostgres)
		ds.Spec.EndpointSecretRef.Name = name
		s.register(ds).failing(v1alpha1.ReasonSecretNotFound)
	}
	for _, driver := range []v1alpha1.Driver{v1alpha1.DriverPostgres, v1alpha1.DriverMemory, v1alpha1.DriverFS} {
		ds := me.newDatastore("token-"+string(driver), driver)
		ds.Spec.EndpointSecretRef = v1alpha1.SecretKeyReference{Name: "robot", Key: "token"}
		refused := s.register(ds)
		refused.failing(v1alpha1.ReasonSecretTypeRefused)
		if refused.managed() != nil {
			t.Errorf("a token became credentials of driver %s", driver)
		}
	}
	claim := me.grant("crossing", other+"/foreign", "shop")
	claim.denied(v1alpha1.ReasonDatastoreNotFound)
	shop := s.workspace("shop", s.class(), lists("../"+other+"/foreign", v1alpha1.DriverPostgres))
	shop.failing(v1alpha1.ReasonDatastoreNotFound)
	if err := shop.injectedNow(); err != nil {
		t.Error(err)
	}

	// what is on the network is not told: an API server, a web server, a closed port and no host are all the same
	config, err := clientcmd.BuildConfigFromFlags("", s.cluster.kubeconfig)
	s.must("read the kubeconfig", err)
	closed, err := freeAddress()
	s.must("find a closed port", err)
	seen := map[string][]string{}
	for i, host := range []string{strings.TrimPrefix(config.Host, "https://"), closed, fmt.Sprintf("127.0.0.1:%d", s.redis().Port), "no-such-host.invalid", "kubernetes.default.svc"} {
		for _, query := range []string{"", "?sslmode=require"} {
			ds := me.datastore(fmt.Sprintf("network-%d-%d", i, len(query)), v1alpha1.DriverPostgres, "postgres://u:pw@"+host+"/db"+query)
			ds.failing(v1alpha1.ReasonUnreachable, host)
			for _, c := range ds.get().Status.Conditions {
				if c.Type == v1alpha1.ConditionReady {
					message := strings.ReplaceAll(c.Message, host, "HOST")
					message = strings.ReplaceAll(message, ":5432", "")
					seen[message] = append(seen[message], host+query)
				}
			}
		}
	}
	if len(seen) != 1 {
		t.Errorf("the messages tell hosts apart: %q", seen)
	}
}
