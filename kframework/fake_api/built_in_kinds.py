"""The kinds of Kubernetes 1.36's stable groups: their names, and which of their parts have a path of their own.

What no scheduler reads is kept as its author wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from kframework.objects import ApiObject, Kind, kind_named
from kframework.objects.kinds import foreign_kind

#: What can be done to a part of an object.
PART = ("get", "patch", "update")
#: What can be done where something is only sent.
SENT = ("create",)
#: What can be done where a client takes a connection over.
CONNECTED = ("create", "get")


class SubresourceKind(NamedTuple):
    """What has its own path below an object; without an `api_version` it shows the object itself."""

    verbs: tuple[str, ...] = PART
    api_version: str = ""
    kind: str = ""


SUBRESOURCES = {
    "approval": SubresourceKind(),
    "attach": SubresourceKind(CONNECTED, "v1", "PodAttachOptions"),
    "binding": SubresourceKind(SENT, "v1", "Binding"),
    "ephemeralcontainers": SubresourceKind(),
    "eviction": SubresourceKind(SENT, "policy/v1", "Eviction"),
    "exec": SubresourceKind(CONNECTED, "v1", "PodExecOptions"),
    "finalize": SubresourceKind(("update",)),
    "log": SubresourceKind(("get",)),
    "portforward": SubresourceKind(CONNECTED, "v1", "PodPortForwardOptions"),
    "resize": SubresourceKind(),
    "scale": SubresourceKind(PART, "autoscaling/v1", "Scale"),
    "status": SubresourceKind(),
    "token": SubresourceKind(SENT, "authentication.k8s.io/v1", "TokenRequest"),
}

#: A line a kind: its name, its plural and what it is called for short, then `cluster` if it is in no namespace,
#: `review` if it is only a question, its subresources, and its category with a plus.
_WRITTEN = """
v1
  ComponentStatus componentstatuses cs, cluster
  ConfigMap configmaps cm,
  Endpoints endpoints ep,
  Event events ev,
  LimitRange limitranges limits,
  Namespace namespaces ns, cluster status finalize
  Node nodes no, cluster status
  PersistentVolume persistentvolumes pv, cluster status
  PersistentVolumeClaim persistentvolumeclaims pvc, status
  Pod pods po, attach binding ephemeralcontainers eviction exec log portforward resize status +all
  PodTemplate podtemplates,
  ReplicationController replicationcontrollers rc, status scale +all
  ResourceQuota resourcequotas quota, status
  Secret secrets,
  Service services svc, status +all
  ServiceAccount serviceaccounts sa, token
apps/v1
  ControllerRevision controllerrevisions,
  DaemonSet daemonsets ds, status +all
  Deployment deployments deploy, status scale +all
  ReplicaSet replicasets rs, status scale +all
  StatefulSet statefulsets sts, status scale +all
autoscaling/v1
  HorizontalPodAutoscaler horizontalpodautoscalers hpa, status +all
autoscaling/v2
  HorizontalPodAutoscaler horizontalpodautoscalers hpa, status +all
batch/v1
  CronJob cronjobs cj, status +all
  Job jobs, status +all
admissionregistration.k8s.io/v1
  MutatingAdmissionPolicy mutatingadmissionpolicies, cluster +api-extensions
  MutatingAdmissionPolicyBinding mutatingadmissionpolicybindings, cluster +api-extensions
  MutatingWebhookConfiguration mutatingwebhookconfigurations, cluster +api-extensions
  ValidatingAdmissionPolicy validatingadmissionpolicies, cluster status +api-extensions
  ValidatingAdmissionPolicyBinding validatingadmissionpolicybindings, cluster +api-extensions
  ValidatingWebhookConfiguration validatingwebhookconfigurations, cluster +api-extensions
apiextensions.k8s.io/v1
  CustomResourceDefinition customresourcedefinitions crd crds, cluster status +api-extensions
apiregistration.k8s.io/v1
  APIService apiservices, cluster status +api-extensions
authentication.k8s.io/v1
  SelfSubjectReview selfsubjectreviews, cluster review
  TokenReview tokenreviews, cluster review
authorization.k8s.io/v1
  LocalSubjectAccessReview localsubjectaccessreviews, review
  SelfSubjectAccessReview selfsubjectaccessreviews, cluster review
  SelfSubjectRulesReview selfsubjectrulesreviews, cluster review
  SubjectAccessReview subjectaccessreviews, cluster review
certificates.k8s.io/v1
  CertificateSigningRequest certificatesigningrequests csr, cluster status approval
coordination.k8s.io/v1
  Lease leases,
discovery.k8s.io/v1
  EndpointSlice endpointslices,
events.k8s.io/v1
  Event events ev,
flowcontrol.apiserver.k8s.io/v1
  FlowSchema flowschemas, cluster status
  PriorityLevelConfiguration prioritylevelconfigurations, cluster status
networking.k8s.io/v1
  IPAddress ipaddresses ip, cluster
  Ingress ingresses ing, status
  IngressClass ingressclasses, cluster
  NetworkPolicy networkpolicies netpol,
  ServiceCIDR servicecidrs, cluster status
node.k8s.io/v1
  RuntimeClass runtimeclasses, cluster
policy/v1
  PodDisruptionBudget poddisruptionbudgets pdb, status
rbac.authorization.k8s.io/v1
  ClusterRole clusterroles, cluster
  ClusterRoleBinding clusterrolebindings, cluster
  Role roles,
  RoleBinding rolebindings,
resource.k8s.io/v1
  DeviceClass deviceclasses, cluster
  ResourceClaim resourceclaims, status
  ResourceClaimTemplate resourceclaimtemplates,
  ResourceSlice resourceslices, cluster
scheduling.k8s.io/v1
  PriorityClass priorityclasses pc, cluster
storage.k8s.io/v1
  CSIDriver csidrivers, cluster
  CSINode csinodes, cluster
  CSIStorageCapacity csistoragecapacities,
  StorageClass storageclasses sc, cluster
  VolumeAttachment volumeattachments, cluster status
  VolumeAttributesClass volumeattributesclasses vac, cluster
"""


class BuiltIn(NamedTuple):
    """A kind of the stable groups: `traits` are `cluster` and `review` where they hold, and its subresources."""

    api_version: str
    name: str
    plural: str
    short_names: tuple[str, ...]
    traits: frozenset[str]
    categories: tuple[str, ...]

    @property
    def kind(self) -> Kind[ApiObject]:
        """The kind as it is read here, or one of which nobody reads more than the metadata."""
        known = kind_named(self.api_version, self.name)
        namespaced = "cluster" not in self.traits
        return known or foreign_kind(self.api_version, self.name, self.plural, namespaced=namespaced)


@cache
def built_in_kinds() -> tuple[BuiltIn, ...]:
    """List the kinds, group by group."""
    return tuple(_read())


def built_in_kind(api_version: str, name: str) -> Kind[ApiObject]:
    """Find a kind by its name; StopIteration if there is none."""
    return next(each.kind for each in built_in_kinds() if (each.api_version, each.name) == (api_version, name))


def _read() -> Iterator[BuiltIn]:
    api_version = ""
    for line in _WRITTEN.strip().splitlines():
        if not line.startswith(" "):
            api_version = line
            continue
        names, _, rest = line.partition(",")
        name, plural, *short_names = names.split()
        traits = [each for each in rest.split() if not each.startswith("+")]
        categories = tuple(each[1:] for each in rest.split() if each.startswith("+"))
        yield BuiltIn(api_version, name, plural, tuple(short_names), frozenset(traits), categories)
