#!/usr/bin/env bash
# Copyright The FormSpec Operator Authors.
# SPDX-License-Identifier: Apache-2.0

# Shows a Workspace become a Deployment, a Service and pods on the right nodes.
#
#   make demo                 on a cluster of this machine: a real control plane with simulated nodes. It stays until
#                             "make demo-down".
#   ONESHOT=1 make demo       the same on a cluster of its own, which goes at the end; status 0 only if the Workspace
#                             became Ready with its pods where they belong.
#   CONTEXT=name make demo    on the cluster of that kubectl context, with samples/quickstart.yaml. The sample goes with
#                             "make demo-down" (or at once with ONESHOT=1), the installed manifests stay.
#
# The operator runs as a process of this machine in every case, with the service account and so with the rights that
# manifests/ give it. TIMEOUT (120s) is how long the Workspace may take.
set -o errexit -o nounset -o pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

context=${CONTEXT:-} oneshot=${ONESHOT:-} timeout=${TIMEOUT:-120s}
system=formspec-system

if [[ -n $context ]]; then
  instance='' state=dist/demo-${context//[^A-Za-z0-9_.-]/_}
  sample=manifests/samples/quickstart.yaml namespace=default workspace=hello
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

# install applies the manifests. The operator's own pods cannot run here: simulated nodes run nothing, and another
# cluster may not be able to pull an image of this tree.
install() {
  say "Installing: kubectl apply -f manifests/"
  if [[ -z $context ]]; then
    kubectl apply -f manifests/
    kubectl scale deployment formspec-operator -n "$system" --replicas=0
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
    --metrics-bind-address=0 --health-probe-bind-address=0 -v=2 >"$log" 2>&1 </dev/null &
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
  nodes=$(get pod C:.spec.nodeName --field-selector=status.phase=Running)
  count=$(wc -l <<<"$nodes")
  if [[ -n $context ]]; then
    [[ -n $nodes ]] || { echo "there is no running pod"; return 1; }
    return
  fi
  [[ $count == 2 ]] || { echo "there should be 2 running pods, not $count"; return 1; }
  [[ $(sort -u <<<"$nodes" | wc -l) == 2 ]] || { echo "both pods are on one node"; return 1; }
  for node in $nodes; do
    [[ $(node_labels "$node") == "prod jakarta enterprise" ]] || { echo "node $node has other labels"; return 1; }
  done
}

# explain prints what is needed to see why the Workspace is not Ready.
explain() {
  {
    say "It did not work. The workspace's conditions:"
    kubectl get workspace "$workspace" -n "$namespace" \
      -o 'jsonpath={range .status.conditions[*]}{.type}={.status} {.reason}: {.message}{"\n"}{end}' || true
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
  if [[ -n $context ]]; then
    echo "To end: CONTEXT=$context make demo-down"
  else
    echo "Nodes and pods are simulated: they are scheduled and become Ready, and run nothing. To end: make demo-down"
  fi
}

# down ends what this script started, and in a cluster of the user's says what it deletes and what it leaves there.
down() {
  if [[ -n $context && -e $state/sample ]]; then
    say "Deleting the sample: kubectl delete -f $sample" # before the operator ends, which has a finalizer on it
    kubectl --kubeconfig "$state/kubeconfig" delete -f "$sample" --ignore-not-found --timeout=60s || true
  fi
  stop_operator
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

if [[ -n $oneshot ]]; then trap down EXIT; fi
mkdir -p "$state"
stop_operator # of an earlier run: this one may be newer
if [[ -n $instance ]]; then
  start_cluster
fi
command -v kubectl >/dev/null || die "kubectl is not on the PATH"
(umask 077 && kubectl config view --raw --minify --flatten ${context:+--context="$context"} >"$state/kubeconfig")
export KUBECONFIG=$PWD/$state/kubeconfig

if [[ -n $context ]]; then spare; fi
install
start_operator
apply_sample
if ! wait_ready; then
  explain
  exit 1
fi
tree
if ! check; then
  explain
  exit 1
fi
if [[ -n $oneshot ]]; then
  say "The workspace is Ready, with its pods where they belong"
else
  how_to_go_on
fi
