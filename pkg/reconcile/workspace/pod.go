// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

package workspace

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	"github.com/formspec/formspec-operator/pkg/apis/formspec/v1alpha1"
	"github.com/formspec/formspec-operator/pkg/reconcile/names"
)

const (
	containerName = "formspec-resource"
	portName      = "http"
	port          = 8080

	configPath = "/etc/formspec"
	tmpPath    = "/tmp"
	dataPath   = "/var/lib/formspec"

	nonRoot = 65532 // the user and group "nonroot" of minimal images
)

// podTemplate is the template of the app's pods. What is in it rolls them when it changes: image, resources, env, placement and the
// artifact hash, nothing else. Source: contract §2.
func (in Input) podTemplate() *corev1ac.PodTemplateSpecApplyConfiguration {
	requirements := in.resources()
	template := corev1ac.PodTemplateSpec().WithLabels(in.labels())
	if hash := in.artifactHash(); hash != "" {
		template.WithAnnotations(map[string]string{v1alpha1.AnnotationArtifactHash: hash})
	}
	if _, revision := in.referred(); revision != "" {
		template.WithAnnotations(map[string]string{v1alpha1.AnnotationCredentials: revision})
	}
	return template.WithSpec(corev1ac.PodSpec().
		WithNodeSelector(in.nodeSelector()).
		WithAffinity(in.affinity((*requirements.Requests)[corev1.ResourceCPU])).
		WithTopologySpreadConstraints(in.spread()...).
		WithAutomountServiceAccountToken(false).
		WithEnableServiceLinks(false).
		WithTerminationGracePeriodSeconds(30).
		WithSecurityContext(corev1ac.PodSecurityContext().
			WithRunAsNonRoot(true).WithRunAsUser(nonRoot).WithRunAsGroup(nonRoot).WithFSGroup(nonRoot).
			WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
		WithContainers(in.container(requirements)).
		WithVolumes(
			corev1ac.Volume().WithName("config").WithConfigMap(
				corev1ac.ConfigMapVolumeSource().WithName(names.ConfigMap(in.Workspace.Name))),
			scratch("tmp", "256Mi"),
			scratch("data", "1Gi")))
}

// scratch is a writable, executable volume that goes with the pod: the app extracts a binary into it and runs it.
func scratch(name, limit string) *corev1ac.VolumeApplyConfiguration {
	return corev1ac.Volume().WithName(name).WithEmptyDir(corev1ac.EmptyDirVolumeSource().WithSizeLimit(resource.MustParse(limit)))
}

func (in Input) container(requirements *corev1ac.ResourceRequirementsApplyConfiguration) *corev1ac.ContainerApplyConfiguration {
	readiness := int32(5)
	if in.Class.Spec.Scaling.ScaleToZero {
		readiness = 1 // somebody waits for the first answer
	}
	return corev1ac.Container().WithName(containerName).WithImage(in.image()).
		WithPorts(corev1ac.ContainerPort().WithName(portName).WithContainerPort(port).WithProtocol(corev1.ProtocolTCP)).
		WithEnv(in.env()...).
		WithResources(requirements).
		// The startup probe stands in for initial delays: a slow start is not killed and a fast one is not delayed.
		WithStartupProbe(health(1, 300)).
		WithLivenessProbe(health(10, 3).WithTimeoutSeconds(5)).
		WithReadinessProbe(health(readiness, 3).WithTimeoutSeconds(3)).
		// Endpoints are withdrawn while the container still answers.
		WithLifecycle(corev1ac.Lifecycle().WithPreStop(corev1ac.LifecycleHandler().WithSleep(corev1ac.SleepAction().WithSeconds(5)))).
		WithSecurityContext(corev1ac.SecurityContext().
			WithAllowPrivilegeEscalation(false).
			WithReadOnlyRootFilesystem(ptr.Deref(in.Class.Spec.Security.ReadOnlyRootFilesystem, true)).
			WithCapabilities(corev1ac.Capabilities().WithDrop("ALL"))).
		WithVolumeMounts(
			corev1ac.VolumeMount().WithName("config").WithMountPath(configPath).WithReadOnly(true),
			corev1ac.VolumeMount().WithName("tmp").WithMountPath(tmpPath),
			corev1ac.VolumeMount().WithName("data").WithMountPath(dataPath))
}

func health(period, failures int32) *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().WithPeriodSeconds(period).WithFailureThreshold(failures).
		WithHTTPGet(corev1ac.HTTPGetAction().WithPath("/health").WithPort(intstr.FromString(portName)))
}

// env is sorted by name, so that equal input gives equal bytes.
func (in Input) env() []*corev1ac.EnvVarApplyConfiguration {
	env := []*corev1ac.EnvVarApplyConfiguration{
		corev1ac.EnvVar().WithName("FORMSPEC_DATA_DIR").WithValue(dataPath),
		corev1ac.EnvVar().WithName("TMPDIR").WithValue(tmpPath),
		corev1ac.EnvVar().WithName("WORKSPACE_ID").WithValue(in.Workspace.Name),
	}
	if url := in.Settings.ControlURL; url != "" {
		env = append(env, corev1ac.EnvVar().WithName("CONTROL_CLUSTER_URL").WithValue(url))
	}
	env = append(env, in.credentialEnv()...)
	slices.SortFunc(env, func(a, b *corev1ac.EnvVarApplyConfiguration) int { return strings.Compare(*a.Name, *b.Name) })
	return env
}

// resources are the stated ones as requests and limits. What is not stated is a request and a memory limit by class, never a CPU limit.
func (in Input) resources() *corev1ac.ResourceRequirementsApplyConfiguration {
	cpu, memory, limit := "250m", "256Mi", "512Mi"
	if in.Class.Spec.Scaling.ScaleToZero {
		cpu, memory, limit = "50m", "64Mi", "256Mi"
	}
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	if stated := in.Workspace.Spec.Resources.CPU; stated != "" {
		cpu = stated
		limits[corev1.ResourceCPU] = quantity(cpu)
	}
	if stated := in.Workspace.Spec.Resources.Memory; stated != "" {
		memory, limit = stated, stated
	}
	requests[corev1.ResourceCPU] = quantity(cpu)
	requests[corev1.ResourceMemory] = quantity(memory)
	limits[corev1.ResourceMemory] = quantity(limit)
	return corev1ac.ResourceRequirements().WithRequests(requests).WithLimits(limits)
}

// quantity is rounded up to thousandths, as the API server stores it: what is finer would look like somebody else's change.
func quantity(text string) resource.Quantity {
	q := resource.MustParse(text)
	q.RoundUp(resource.Milli)
	return q
}

// image is the class's, to try a version on one tier first, or the operator's.
func (in Input) image() string {
	if canary := in.Class.Spec.ResourceImage; canary != "" {
		return canary
	}
	return in.Settings.Image
}
