#!/usr/bin/env bash
# Copyright The FormSpec Operator Authors.
# SPDX-License-Identifier: Apache-2.0

# Shows a Workspace become a Deployment, a Service and pods on the right nodes, with the credentials of its datastores.
#
#   make demo                 on a cluster of this machine: a real control plane with simulated nodes. It stays until
#                             "make demo-down".
#   ONESHOT=1 make demo       the same on a cluster of its own, which goes at the end; status 0 only if the Workspace
#                             became Ready with its pods where they belong and its credentials in them, a forged claim
#                             got nothing, and Cluster Control got its reports.
#   make demo NODE=1          as root on Linux: this machine becomes a node of that cluster, and a Workspace of an economy
#                             class sleeps there until one curl wakes it (samples/economy.yaml). Goes with ONESHOT=1.
#   CONTEXT=name make demo    on the cluster of that kubectl context, with samples/quickstart.yaml. The sample goes with
#                             "make demo-down" (or at once with ONESHOT=1), the installed manifests stay.
#
# The sample's datastores are a PostgreSQL and a Redis or Valkey that this script starts on this machine, for itself and
# on free ports, from the programs of the packages postgresql and redis-server. Without them the sample's Workspace
# waits, which is shown, and samples/quickstart.yaml becomes Ready instead.
#
# It reports to a reference Cluster Control (test/clustercontrol), which checks every signature and record, shows them on a
# page, and asks for a restart. With CONTEXT nothing is reported.
#
# The operator runs as a process of this machine in every case, with the service account and so with the rights that
# manifests/ give it. TIMEOUT (120s) is how long the Workspace may take.
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

context=${CONTEXT:-} oneshot=${ONESHOT:-} node=${NODE:-} timeout=${TIMEOUT:-120s}
system=formspec-system quickstart=manifests/samples/quickstart.yaml economy=manifests/samples/economy.yaml

if [[ -n $context ]]; then
  instance='' state=dist/demo-${context//[^A-Za-z0-9_.-]/_}
  sample=$quickstart namespace=default workspace=hello
else
  instance=demo state=dist/demo
  sample=manifests/samples/bank-mandiri.yaml namespace=demo workspace=bank-mandiri-prod
fi
if [[ -n $oneshot ]]; then # its own, so that it disturbs no demo that is open
  instance=${instance:+demo-$$} state=$state-$$
fi
log=$state/operator.log

say() { printf '\n== %s\n' "$*"; }
die() {
  printf '\n%s\n' "$*" >&2
  exit 1
}

# operator_pid prints the process id of the operator that this script started, if it still runs.
operator_pid() {
  local pid
  pid=$(cat "$state/operator.pid" 2>/dev/null) || return 1
  [[ $(ps -o args= -p "$pid" 2>/dev/null) == *formspec-operator\ run* ]] && echo "$pid"
}

stop_operator() {
  local pid
  pid=$(operator_pid) || return 0
  kill "$pid"
  for ((i = 0; i < 400; i++)); do
    operator_pid >/dev/null || return 0
    sleep 0.1
  done
  die "the operator (process $pid) does not end; its log is $log"
}

# start_cluster brings up the simulated cluster and puts its kubectl first.
start_cluster() {
  say "Starting a cluster: the control plane is real, its 4 nodes and their pods are simulated by kwok"
  bin/devcluster build >/dev/null
  local lifetime=()
  if [[ -n $oneshot ]]; then lifetime=(--die-with $$); fi
  bin/devcluster up --name "$instance" --nodes 4 ${lifetime[@]+"${lifetime[@]}"} >/dev/null
  eval "$(bin/devcluster env --name "$instance")"
  kubectl get nodes -L formspec.dev/environment,formspec.dev/region,formspec.dev/tier,formspec.dev/capacity
}

# join makes this machine a node, with the images that its pods run: the operator's, and a stand-in for the generic image.
join() {
  say "Making this machine a node: bin/devcluster node"
  bin/devcluster node --name "$instance" --environment dev --tier shared >"$state/node"
  local image
  image=$(sed -n 's/^ *image: //p' manifests/50-activator.yaml)
  bin/devcluster image --name "$instance" "$image" bin/formspec-operator
  bin/devcluster image --name "$instance" formahub/formspec-resource:1.4.2 bin/formspec-resource --env START_DELAY=0.5s
}

# spare refuses a cluster where the demo would be in somebody's way.
spare() {
  local running
  running=$(kubectl get deployment formspec-operator -n "$system" --ignore-not-found -o 'jsonpath={.spec.replicas}')
  if [[ ${running:-0} != 0 ]]; then
    die "Context $context has an operator (deployment formspec-operator, $running replicas), against which the demo would work."
  fi
  if [[ ! -e $state/sample && -n $(kubectl get -f "$sample" --ignore-not-found -o name 2>/dev/null) ]]; then
    die "Context $context has objects of $sample already, and the demo would delete them at its end."
  fi
}

# program NAME... prints the path of the first that is installed. Debian has PostgreSQL's where no PATH leads.
program() {
  local name path
  for name in "$@"; do
    path=$(command -v "$name") && echo "$path" && return
    for path in /usr/lib/postgresql/*/bin/"$name"; do
      [[ -x $path ]] && echo "$path" && return
    done
  done
  return 1
}

have_servers() { program pg_ctl && program initdb && program psql && program redis-server valkey-server; } >/dev/null

# server_user prints whom the servers run as. PostgreSQL refuses root.
server_user() {
  if [[ $EUID != 0 ]]; then
    id -un
  elif id postgres >/dev/null 2>&1; then
    echo postgres
  else
    echo nobody
  fi
}

# as_server COMMAND... runs one of the servers' programs.
as_server() {
  if [[ $EUID == 0 ]]; then
    (cd / && runuser -u "$(server_user)" -- "$@")
  else
    "$@"
  fi
}

random() { head -c "$1" /dev/urandom | od -An -vtx1 | tr -d ' \n'; }

answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

free_port() {
  local port
  while port=$((RANDOM % 20000 + 20000)) && answers "$port"; do :; done
  echo "$port"
}

# start_servers starts PostgreSQL with a database "bank" and Redis or Valkey, and sets postgres_uri and redis_uri.
start_servers() {
  say "Starting the datastores on this machine: PostgreSQL and Redis (or Valkey)"
  local data admin password port
  data=$(mktemp -d "${TMPDIR:-/tmp}/formspec-demo-XXXXXX")
  echo "$data" >"$state/servers"
  admin=$(random 16) password=$(random 16) port=$(free_port)
  echo "$admin" >"$data/password"
  printf '%s\n' 'host all all 127.0.0.1/32 scram-sha-256' >"$data/access"
  chown -R "$(server_user)" "$data"
  as_server "$(program initdb)" --pgdata="$data/postgres" --username=postgres --pwfile="$data/password" \
    --auth=scram-sha-256 --no-sync --no-instructions >/dev/null
  rm "$data/password"
  as_server "$(program pg_ctl)" start --silent --wait --pgdata="$data/postgres" --log="$data/postgres.log" \
    --options="-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off -c hba_file=$data/access"
  PGPASSWORD=$admin "$(program psql)" --host=127.0.0.1 --port="$port" --username=postgres --quiet --no-psqlrc \
    --command="CREATE ROLE bank LOGIN PASSWORD '$password'" --command='CREATE DATABASE bank OWNER bank'
  postgres_uri="postgres://bank:$password@127.0.0.1:$port/bank?sslmode=disable"

  password=$(random 16) port=$(free_port)
  as_server "$(program redis-server valkey-server)" - >/dev/null <<END
bind 127.0.0.1
port $port
requirepass $password
dir $data
save ""
daemonize yes
pidfile $data/redis.pid
logfile $data/redis.log
END
  for ((i = 0; i < 100; i++)); do
    if [[ -s $data/redis.pid ]] && answers "$port"; then break; fi
    sleep 0.1
  done
  answers "$port" || die "Redis does not start; its log is $data/redis.log"
  redis_uri="redis://:$password@127.0.0.1:$port"
  echo "PostgreSQL and $(basename "$(program redis-server valkey-server)") run in $data"
}

stop_servers() {
  local data pid
  data=$(cat "$state/servers" 2>/dev/null) || return 0
  if [[ -d $data/postgres ]]; then
    as_server "$(program pg_ctl)" stop --silent --mode=fast --pgdata="$data/postgres" || true
  fi
  pid=$(cat "$data/redis.pid" 2>/dev/null) || pid=''
  if [[ -n $pid && $(ps -o args= -p "$pid" 2>/dev/null) =~ (redis|valkey)-server ]]; then
    kill "$pid"
    for ((i = 0; i < 100; i++)); do
      if ! kill -0 "$pid" 2>/dev/null; then break; fi
      sleep 0.1
    done
  fi
  rm -rf "$data" "$state/servers"
}

# start_control starts a reference Cluster Control, and has the operator report to it.
start_control() {
  local wire admin
  wire=$(free_port) admin=$(free_port)
  say "Starting a reference Cluster Control: its page is http://127.0.0.1:$admin/"
  bin/clustercontrol --bind-address="127.0.0.1:$wire" --admin-bind-address="127.0.0.1:$admin" --self-signed-dir="$state/tls" \
    --data="$state/control.db" --metering-interval=10s >"$state/control.log" 2>&1 </dev/null &
  echo $! >"$state/control.pid"
  echo "$admin" >"$state/control.port"
  for ((i = 0; i < 100; i++)); do
    if answers "$wire" && answers "$admin"; then break; fi
    sleep 0.1
  done
  answers "$admin" || die "it does not start; its log is $state/control.log"
  mkdir -p "$state/outbox"
  reporting=(--control-cluster-url="https://127.0.0.1:$wire" --control-ca-file="$state/tls/tls.crt" --cluster-name=demo
    --outbox-dir="$state/outbox" --metering-interval=10s)
}

stop_control() {
  local pid
  pid=$(cat "$state/control.pid" 2>/dev/null) || return 0
  if [[ $(ps -o args= -p "$pid" 2>/dev/null) == bin/clustercontrol* ]]; then kill "$pid"; fi
  rm -f "$state/control.pid"
}

# control METHOD PATH [BODY] asks Cluster Control's admin address, and prints the answer without white space.
control() {
  exec 3<>"/dev/tcp/127.0.0.1/$(cat "$state/control.port")"
  printf '%s %s HTTP/1.0\r\nContent-Length: %s\r\n\r\n%s' "$1" "$2" "${#3}" "${3-}" >&3
  sed '1,/^\r*$/d' <&3 | tr -d ' \n'
}

# told TEXT REGEX waits until what Cluster Control knows matches.
told() {
  for ((i = 0; i < 300; i++)); do
    if [[ $(control GET /admin/state '') =~ $2 ]]; then
      echo "$1"
      return
    fi
    sleep 0.2
  done
  echo "not within a minute: $1"
  return 1
}

# trust tells Cluster Control the operator's key, as who runs the cluster does once.
trust() {
  say "Telling Cluster Control whom to trust: formspec-operator identity"
  local identity=''
  for ((i = 0; i < 100; i++)); do
    if identity=$(bin/formspec-operator identity 2>/dev/null); then break; fi
    sleep 0.2
  done
  [[ -n $identity ]] || { echo "the operator has made no identity"; return 1; }
  echo "$identity"
  control POST /admin/keys "{\"public_key\":\"${identity##*: }\",\"cluster\":\"demo\"}" >/dev/null
}

# reports shows what Cluster Control was told, and that a restart which it asks for is carried out.
reports() {
  say "What the operator reports, as Cluster Control has it"
  local before
  told "4 healthy nodes" '"nodes":\[(.*"status":"healthy"){4}' || return 1
  told "workspace $workspace is Ready" "\"workspace\":\"$workspace\",\"uid\":\"[^\"]*\",\"phase\":\"Ready\"" || return 1
  told "its usage in a slot of 10 s" "\"idempotency_key\":\"demo/[^\"]*\",\"slot\":\"[^\"]*\",\"namespace\":\"$namespace\",\"workspace\":\"$workspace\"" || return 1

  say "Cluster Control asks for a restart: the artifact has a new binary"
  before=$(get pod N:.metadata.uid)
  control POST /admin/restarts "{\"cluster\":\"demo\",\"namespace\":\"$namespace\",\"workspace\":\"$workspace\",\"binary_hash\":\"sha256:7f83b165\",\"artifact_id\":\"loan-api\",\"version\":\"2.4.1\"}" >/dev/null
  told "the restart is reported as consumed" '"restart_required_consumed":[1-9]' || return 1
  if grep -qFx "$before" <<<"$(get pod N:.metadata.uid --field-selector=status.phase=Running)"; then
    echo "a pod was not replaced"
    return 1
  fi
  kubectl get workspace "$workspace" -n "$namespace" -o 'jsonpath=status.artifact: {.status.artifact}{"\n"}'
  # Its first requests came before its key was trusted.
  if control GET /admin/violations '' | grep -o '"kind":"[a-z-]*"[^}]*' | grep -v '^"kind":"key"'; then return 1; fi
  echo "No report broke the contract"
}

# install applies the manifests. The operator's own pods cannot run here: simulated nodes run nothing, and another
# cluster may not be able to pull an image of this tree.
install() {
  say "Installing: kubectl apply -f manifests/"
  if [[ -z $context ]]; then
    kubectl apply -f manifests/
    kubectl scale deployment formspec-operator -n "$system" --replicas=0
    if [[ -n $node ]]; then # simulated nodes run no activator
      kubectl patch deployment formspec-activator -n formspec-activator --type=merge \
        -p "{\"spec\":{\"template\":{\"spec\":{\"nodeSelector\":{\"kubernetes.io/hostname\":\"$(cat "$state/node")\"}}}}}"
    fi
  else
    echo "(without 40-deployment.yaml: the operator runs on this machine)"
    kubectl apply -f manifests/00-namespace.yaml -f manifests/10-crds.yaml -f manifests/20-rbac.yaml -f manifests/30-user-roles.yaml
  fi
  kubectl wait --for=condition=Established --timeout=30s \
    crd/{clusterclasses,workspaces,datastores,resourceclaims}.formspec.dev >/dev/null
}

# start_operator runs the operator as its service account: same cluster, other user.
start_operator() {
  say "Starting the operator as a process of this machine, as its service account (log: $log)"
  local config=$state/operator.kubeconfig user
  (umask 077 && kubectl config view --raw --minify --flatten >"$config")
  user=$(kubectl config view --kubeconfig "$config" -o 'jsonpath={.users[0].name}')
  kubectl config --kubeconfig "$config" delete-user "$user" >/dev/null
  kubectl config --kubeconfig "$config" set-credentials formspec-operator \
    --token="$(kubectl create token formspec-operator -n "$system" --duration=24h)" >/dev/null
  kubectl config --kubeconfig "$config" set-context --current --user=formspec-operator >/dev/null

  # A session of its own, so that Ctrl-C here does not reach it.
  local detach=()
  if command -v setsid >/dev/null; then detach=(setsid); fi
  ${detach[@]+"${detach[@]}"} bin/formspec-operator run --kubeconfig="$config" --leader-elect=true \
    --metrics-bind-address=0 --health-probe-bind-address=0 -v=2 ${reporting[@]+"${reporting[@]}"} >"$log" 2>&1 </dev/null &
  echo $! >"$state/operator.pid"
}

apply_sample() {
  touch "$state/sample"
  say "Creating the workspace: kubectl apply -n $namespace -f $sample"
  if [[ $namespace != default ]]; then
    kubectl apply -f - <<END
apiVersion: v1
kind: Namespace
metadata:
  name: $namespace
  labels:
    pod-security.kubernetes.io/enforce: restricted # the pods run in it as they are
END
  fi
  kubectl apply -n "$namespace" -f "$sample"
}

# waiting shows what the Workspace says about its datastores while they are not there.
waiting() {
  say "What the workspace says before its datastores are there"
  kubectl wait -n "$namespace" --for=condition=DatastoresBound=False "workspace/$workspace" --timeout="$timeout" >/dev/null || return 1
  kubectl wait -n "$namespace" --for=condition=Denied resourceclaims.formspec.dev/bank-pg-claim --timeout="$timeout" >/dev/null || return 1
  show workspace "$workspace" DatastoresBound Ready
  show resourceclaims.formspec.dev bank-pg-claim Denied
}

# show KIND NAME CONDITION... prints conditions, one a line.
show() {
  local type
  for type in "${@:3}"; do
    kubectl get "$1" "$2" -n "$namespace" -o "jsonpath={range .status.conditions[?(@.type=='$type')]}{.type}={.status} {.reason}: {.message}{'\n'}{end}"
  done
}

# bind_datastores is what the owner of the datastores does: endpoint Secrets, a key, and signed claims.
bind_datastores() {
  say "Storing the connection strings: Secrets pg-bank-mandiri-creds and valkey-shared-creds"
  store_endpoint pg-bank-mandiri-creds "$postgres_uri"
  store_endpoint valkey-shared-creds "$redis_uri"

  say "Making the owner's key and publishing its public half: formspec-operator grant keygen --owner cloud-owner"
  local key=$state/cloud-owner.pem public
  public=$(bin/formspec-operator grant keygen --owner cloud-owner --out "$key" --force | sed -n 's/^Public key: *//p')
  kubectl create configmap formspec-owner-keys -n "$system" --from-literal=cloud-owner="$public" --dry-run=client -o yaml |
    kubectl apply -f -

  say "Signing the sample's claim: formspec-operator grant sign --key cloud-owner.pem -f $sample | kubectl apply -f -"
  bin/formspec-operator grant sign --key "$key" -f "$sample" >"$state/signed.yaml"
  kubectl apply -n "$namespace" -f "$state/signed.yaml"

  say "Adding what the sample leaves out: Datastore valkey-shared, and a signed claim for it"
  cat >"$state/valkey.yaml" <<END
apiVersion: formspec.dev/v1alpha1
kind: Datastore
metadata:
  name: valkey-shared
spec:
  driver: valkey
  endpointSecretRef:
    name: valkey-shared-creds
    key: connection-string
  allowedTenants: ["workspace:$workspace"]
  owner: cloud-owner
---
apiVersion: formspec.dev/v1alpha1
kind: ResourceClaim
metadata:
  name: bank-valkey-claim
spec:
  datastore: valkey-shared
  workspace: $workspace
  permission: read-write
  grantedBy: cloud-owner
END
  bin/formspec-operator grant sign --key "$key" -f "$state/valkey.yaml" | kubectl apply -n "$namespace" -f -
}

# store_endpoint NAME URI makes an endpoint Secret. The connection string is on no command line.
store_endpoint() {
  kubectl create secret generic "$1" -n "$namespace" --from-file=connection-string=<(printf %s "$2") --dry-run=client -o yaml |
    kubectl apply -f -
}

# variables prints the names of the pods' variables that come from datastores.
variables() {
  kubectl get deployment "formspec-resource-$workspace" -n "$namespace" \
    -o 'jsonpath={range .spec.template.spec.containers[0].env[*]}{.name} {.valueFrom.secretKeyRef.name}{"\n"}{end}' |
    grep DATASTORE
}

# injected shows the variables, and that a client with the connection string among them reaches the database.
injected() {
  say "What the pods get, all by reference to the workspace's credentials Secret"
  variables | sed "s/ formspec-resource-$workspace-db-credentials\$/  (from the Secret)/"
  local name count uri who
  for name in FORMSPEC_DATASTORE_PG_BANK_MANDIRI_{DSN,HOST,PORT,USER,PASSWORD,DATABASE,PERMISSION} \
    FORMA_DATASTORE_PG_BANK_MANDIRI_DSN FORMSPEC_DATASTORE_VALKEY_SHARED_DSN; do
    count=$(variables | grep -cx "$name formspec-resource-$workspace-db-credentials" || true)
    [[ $count == 1 ]] || { echo "the variable $name is missing"; return 1; }
  done
  uri=$(kubectl get secret "formspec-resource-$workspace-db-credentials" -n "$namespace" \
    -o 'jsonpath={.data.FORMSPEC_DATASTORE_PG_BANK_MANDIRI_DSN}' | base64 -d)
  who=$("$(program psql)" --no-psqlrc --no-password --tuples-only --no-align \
    --command="SELECT current_user || ' of database ' || current_database()" "$uri") || return 1
  echo "psql with that connection string is logged in as $who"
  [[ $who == "bank of database bank" ]]
}

# forge applies a claim that somebody changed after it was signed, and shows that it gets nothing.
forge() {
  say "A claim that was changed after it was signed: read-write instead of read-only"
  local before
  before=$(variables)
  cat >"$state/forged.yaml" <<END
apiVersion: formspec.dev/v1alpha1
kind: ResourceClaim
metadata:
  name: forged
spec:
  datastore: pg-bank-mandiri
  workspace: $workspace
  permission: read-only
  grantedBy: cloud-owner
END
  bin/formspec-operator grant sign --key "$state/cloud-owner.pem" -f "$state/forged.yaml" 2>/dev/null |
    sed 's/permission: read-only/permission: read-write/' | kubectl apply -n "$namespace" -f -
  kubectl wait -n "$namespace" --for=condition=Denied=True resourceclaims.formspec.dev/forged --timeout="$timeout" >/dev/null || return 1
  show resourceclaims.formspec.dev forged Denied
  [[ $(show resourceclaims.formspec.dev forged Denied) == "Denied=True SignatureMismatch"* ]] || return 1
  [[ $(variables) == "$before" ]] || { echo "the variables have changed"; return 1; }
  kubectl wait -n "$namespace" --for=condition=Ready "workspace/$workspace" --timeout="$timeout" >/dev/null || return 1
  echo "The workspace is Ready as before"
}

# without_servers is the demo where there are no programs to make datastores from.
without_servers() {
  say "Without datastores: the programs of PostgreSQL and of Redis or Valkey are not installed on this machine"
  echo "So the sample's workspace waits, as it should. To see it become Ready: apt-get install postgresql redis-server"
  sample=$quickstart workspace=hello
  say "Creating a workspace without datastores: kubectl apply -n $namespace -f $sample"
  sed '/^  namespace: default$/d' "$sample" | kubectl apply -n "$namespace" -f -
}

# wait_ready waits for the Workspace, and gives up early if the operator ends.
wait_ready() {
  say "Waiting: kubectl wait --for=condition=Ready workspace/$workspace"
  kubectl wait -n "$namespace" --for=condition=Ready "workspace/$workspace" --timeout="$timeout" &
  local wait=$!
  while kill -0 "$wait" 2>/dev/null; do
    if ! operator_pid >/dev/null; then
      kill "$wait" 2>/dev/null || true
      wait "$wait" 2>/dev/null || true
      echo "the operator ended"
      return 1
    fi
    sleep 0.2
  done
  wait "$wait"
}

# get KIND COLUMNS [FLAG...] prints a kind's objects that belong to the Workspace, one a line.
get() {
  kubectl get "$1" -n "$namespace" -l "formspec.dev/workspace=$workspace" --no-headers -o "custom-columns=$2" "${@:3}" 2>/dev/null
}

node_labels() {
  kubectl get node "$1" -o 'jsonpath={.metadata.labels.formspec\.dev/environment} {.metadata.labels.formspec\.dev/region} {.metadata.labels.formspec\.dev/tier}'
}

# tree shows the Workspace and what was made from it.
tree() {
  say "What is there now (namespace $namespace)"
  kubectl get workspace "$workspace" -n "$namespace" \
    -o 'jsonpath=Workspace {.metadata.name}: {.status.phase}, {.status.readyReplicas} ready{"\n"}'
  local line
  children() { # KIND FORMAT COLUMNS...
    local kind=$1 format=$2 columns='N:.metadata.name'
    shift 2
    for line in "$@"; do columns+=",C:$line"; done
    while read -r -a line; do
      # shellcheck disable=SC2059 # the format is one of those below
      printf "├─ %-11s %s  $format\n" "$kind" "${line[@]}"
    done < <(get "$kind" "$columns")
  }
  children deployment '%s of %s pods ready, image %s' .status.readyReplicas .spec.replicas '.spec.template.spec.containers[0].image'
  children service '%s, port %s' .spec.clusterIP '.spec.ports[0].port'
  children configmap ''
  children secret '(owner: %s; credentials outlive their workspace)' '.metadata.ownerReferences[0].name'
  children hpa '%s to %s pods' .spec.minReplicas .spec.maxReplicas
  children pdb 'at most %s pod unavailable' .spec.maxUnavailable
  local pod node
  while read -r pod node; do
    printf '└─ pod %s  on %s (%s)\n' "$pod" "$node" "$(node_labels "$node" 2>/dev/null)"
  done < <(get pod N:.metadata.name,C:.spec.nodeName)
}

# check fails unless the pods are what the sample asks for.
check() {
  local nodes node count
  for ((i = 0; i < 100; i++)); do # until the pods of an earlier rollout are gone
    nodes=$(get pod C:.spec.nodeName --field-selector=status.phase=Running)
    count=$(wc -l <<<"$nodes")
    if [[ $sample == "$quickstart" || $count == 2 ]]; then break; fi
    sleep 0.2
  done
  if [[ $sample == "$quickstart" ]]; then
    [[ -n $nodes ]] || { echo "there is no running pod"; return 1; }
    return
  fi
  [[ $count == 2 ]] || { echo "there should be 2 running pods, not $count"; return 1; }
  [[ $(sort -u <<<"$nodes" | wc -l) == 2 ]] || { echo "both pods are on one node"; return 1; }
  for node in $nodes; do
    [[ $(node_labels "$node") == "prod jakarta enterprise" ]] || { echo "node $node has other labels"; return 1; }
  done
}

# scale_to_zero lets an economy Workspace sleep, and wakes it with one request.
scale_to_zero() {
  local workspace=corner-shop answer host address
  say "Creating a workspace that sleeps while nobody uses it: kubectl apply -n $namespace -f $economy"
  kubectl rollout status deployment/formspec-activator -n formspec-activator --timeout="$timeout" >/dev/null || return 1
  sed '/^  namespace: default$/d' "$economy" | kubectl apply -n "$namespace" -f - || return 1
  kubectl wait -n "$namespace" --for=condition=Ready "workspace/$workspace" --timeout="$timeout" || return 1
  get pod N:.metadata.name,P:.status.phase,N:.spec.nodeName

  say "It need not wait for five minutes: kubectl annotate workspace $workspace formspec.dev/idle=true"
  kubectl annotate -n "$namespace" workspace "$workspace" formspec.dev/idle=true || return 1
  kubectl wait -n "$namespace" --for=jsonpath='{.status.phase}'=Sleeping "workspace/$workspace" --timeout="$timeout" || return 1
  kubectl wait -n "$namespace" --for=delete pod -l "formspec.dev/workspace=$workspace" --timeout="$timeout" || return 1
  kubectl get workspace "$workspace" -n "$namespace" || return 1
  [[ -z $(get pod N:.metadata.name) ]] || { echo "there are pods"; return 1; }

  # There is no cluster DNS here, which would lead from the name to the address.
  host=formspec-resource-$workspace.$namespace
  address=$(kubectl get service "formspec-resource-$workspace" -n "$namespace" -o 'jsonpath={.spec.clusterIP}')
  say "One request wakes it: curl -i --resolve $host:80:$address http://$host/"
  answer=$(curl -si --max-time 60 --noproxy '*' --resolve "$host:80:$address" -w '\n%{time_total} s\n' "http://$host/") || return 1
  head -c 600 <<<"$answer"
  printf '\n...\n%s\n' "$(tail -n 1 <<<"$answer")"
  [[ $answer == "HTTP/1.1 200 OK"* ]] || { echo "that is not 200"; return 1; }
  grep -qi '^x-formspec-cold-start: [0-9]' <<<"$answer" || { echo "the header X-Formspec-Cold-Start is missing"; return 1; }
  kubectl wait -n "$namespace" --for=jsonpath='{.status.phase}'=Ready "workspace/$workspace" --timeout="$timeout" || return 1
  get pod N:.metadata.name,P:.status.phase,N:.spec.nodeName
}

# explain prints what is needed to see why the Workspace is not Ready.
explain() {
  {
    say "It did not work. The workspace's conditions:"
    kubectl get workspace "$workspace" -n "$namespace" \
      -o 'jsonpath={range .status.conditions[*]}{.type}={.status} {.reason}: {.message}{"\n"}{end}' || true
    say "Datastores and claims:"
    kubectl get datastores.formspec.dev,resourceclaims.formspec.dev -n "$namespace" -o wide || true
    say "Events in namespace $namespace:"
    kubectl get events -n "$namespace" --sort-by=.metadata.creationTimestamp 2>/dev/null | tail -n 20 || true
    say "The end of the operator's log:"
    tail -n 40 "$log" || true
    if [[ -z $oneshot ]]; then printf '\nEverything keeps running, for you to look at. To end: %smake demo-down\n' "${context:+CONTEXT=$context }"; fi
  } >&2
}

how_to_go_on() {
  local here=$PWD bin
  bin=$(dirname "$(command -v kubectl)")
  cat <<END

The workspace is Ready. Everything keeps running; to look around:

  export KUBECONFIG=$here/$state/kubeconfig PATH=$bin:\$PATH
  kubectl get formspec -n $namespace
  kubectl describe workspace $workspace -n $namespace
  kubectl delete deployment formspec-resource-$workspace -n $namespace    # it comes back
  kubectl delete workspace $workspace -n $namespace                       # its children go, within 30 s
  tail -f $here/$log

END
  if [[ -z $context ]]; then echo "What Cluster Control was told: http://127.0.0.1:$(cat "$state/control.port")/"; fi
  if [[ -n $context ]]; then
    echo "To end: CONTEXT=$context make demo-down"
  else
    echo "Nodes and pods are simulated: they are scheduled and become Ready, and run nothing.${node:+ But for this one, on which
the activator and the workspace corner-shop run.} To end: make demo-down"
  fi
}

# down ends what this script started, and in a cluster of the user's says what it deletes and what it leaves there.
down() {
  if [[ -n $context && -e $state/sample ]]; then
    say "Deleting the sample: kubectl delete -f $sample" # before the operator ends, which has a finalizer on it
    kubectl --kubeconfig "$state/kubeconfig" delete -f "$sample" --ignore-not-found --timeout=60s || true
  fi
  stop_operator
  stop_control
  stop_servers
  if [[ -n $instance ]]; then
    bin/devcluster down --wipe --name "$instance"
  else
    cat <<END

What was installed in context $context is still there, and so is the workspace's credentials Secret, which outlives it. To
remove them, and with the CRDs every FormSpec object of the cluster:

  kubectl --context $context delete secret formspec-resource-$workspace-db-credentials -n $namespace
  kubectl --context $context delete -f manifests/ --ignore-not-found
END
  fi
  rm -rf "$state"
}

case ${1:-up} in
up) ;;
down)
  down
  exit
  ;;
*) die "usage: hack/demo.sh [up|down]" ;;
esac

if [[ -n $node && (-n $context || $(uname) != Linux || $EUID != 0) ]]; then
  die "NODE=1 makes this machine a node, which takes Linux and root, and a cluster of the demo's own (without CONTEXT)."
fi
if [[ -n $oneshot ]]; then trap down EXIT; fi
mkdir -p "$state"
stop_operator # of an earlier run: this one may be newer
stop_control
stop_servers
if [[ -n $instance ]]; then
  start_cluster
fi
if [[ -n $node ]]; then join; fi
command -v kubectl >/dev/null || die "kubectl is not on the PATH"
(umask 077 && kubectl config view --raw --minify --flatten ${context:+--context="$context"} >"$state/kubeconfig")
export KUBECONFIG=$PWD/$state/kubeconfig

if [[ -n $context ]]; then spare; fi
# must COMMAND... explains what there is if the command fails.
must() {
  if ! "$@"; then
    explain
    exit 1
  fi
}

install
reporting=()
if [[ -z $context ]]; then start_control; fi
start_operator
if [[ -z $context ]]; then must trust; fi
apply_sample
with_servers=''
if [[ -z $context ]]; then
  must waiting
  if have_servers; then
    with_servers=1
    start_servers
    bind_datastores
  else
    without_servers
  fi
fi
must wait_ready
must check
tree
if [[ -n $with_servers ]]; then
  must injected
  must forge
fi
if [[ -z $context ]]; then must reports; fi
if [[ -n $node ]]; then must scale_to_zero; fi
if [[ -z $oneshot ]]; then
  how_to_go_on
elif [[ -n $with_servers ]]; then
  say "The workspace is Ready, with its pods where they belong and its credentials in them; the forged claim got nothing"
elif [[ -n $context ]]; then
  say "The workspace is Ready"
else
  say "The workspace without datastores is Ready; that of the sample waits for its datastores, which cannot run here"
fi
