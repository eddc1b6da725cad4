"""Served resources: the kinds of Kubernetes' stable groups and others, and conversions between their versions.

Fields that no scheduler reads are kept as their author wrote them. The subresource `scale` is the same for all kinds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from typing import NamedTuple

import msgspec

from kframework.client import api_errors
from kframework.fake_api.custom.kinds import CustomKind
from kframework.fake_api.wire.documents import ApiDocument, Data
from kframework.fake_api.wire.kind_versions import from_core, from_v1, to_core, to_v1
from kframework.objects import (
    ApiObject,
    CoreEvent,
    Event,
    Kind,
    LabelSelector,
    PrinterColumn,
    find_kind,
    kind_of,
)
from kframework.objects.kinds import foreign_kind
from kframework.objects.label_selectors import label_selector
from kframework.objects.plain_data import mapping, number, text, value
from kframework.values.feature_gates import MINORS, FeatureGates

SCALE = "autoscaling/v1"

_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class ScalePaths(NamedTuple):
    """Paths of the desired and actual replicas, and of the selector, in objects of a kind."""

    spec: str = "spec.replicas"
    status: str = "status.replicas"
    selector: str = "spec.selector"


def to_scale(paths: ScalePaths, data: Data) -> Data:
    metadata = {name: value for name, value in mapping(data, "metadata").items() if name in _METADATA}
    status: Data = {"replicas": number(data, paths.status)}
    selector = value(data, paths.selector)  # text in a custom resource
    if isinstance(selector, dict) and not selector.keys() <= {"matchLabels", "matchExpressions"}:
        selector = ",".join(f"{key}={selector[key]}" for key in sorted(selector))  # a ReplicationController's
    elif isinstance(selector, dict):
        try:
            selector = str(label_selector(msgspec.convert(selector, LabelSelector)))
        except ValueError:
            selector = ""
    if isinstance(selector, str) and selector:
        status["selector"] = selector
    spec = {"replicas": number(data, paths.spec)} if number(data, paths.spec) else {}
    return {"kind": "Scale", "apiVersion": SCALE, "metadata": metadata, "spec": spec, "status": status}


def with_scale(paths: ScalePaths, data: Data, scale: Data) -> Data:
    """Return an object with the replicas of a Scale; ClusterError 400 or 422 for an invalid one."""
    replicas = value(scale, "spec.replicas") or 0
    if scale.get("kind", "Scale") != "Scale" or not isinstance(replicas, int) or isinstance(replicas, bool):
        raise api_errors.bad_request("the body of the request is not a Scale of autoscaling/v1 with whole replicas")
    if replicas < 0:
        raise api_errors.invalid_scale(text(data, "metadata.name"), replicas)
    metadata = mapping(data, "metadata")
    if version := text(scale, "metadata.resourceVersion"):
        metadata = {**metadata, "resourceVersion": version}
    return _set_at({**data, "metadata": metadata}, paths.spec.split("."), replicas)


def _set_at(data: Data, path: list[str], value: object) -> Data:
    first, *rest = path
    return {**data, first: _set_at(mapping(data, first), rest, value) if rest else value}


PART_VERBS = ("get", "patch", "update")
CREATE_VERBS = ("create",)
CONNECT_VERBS = ("create", "get")


class SubresourceKind(NamedTuple):
    """A subresource; without an `api_version` it returns the object itself."""

    verbs: tuple[str, ...] = PART_VERBS
    api_version: str = ""
    kind: str = ""


SUBRESOURCES = {
    "approval": SubresourceKind(),
    "attach": SubresourceKind(CONNECT_VERBS, "v1", "PodAttachOptions"),
    "binding": SubresourceKind(CREATE_VERBS, "v1", "Binding"),
    "ephemeralcontainers": SubresourceKind(),
    "eviction": SubresourceKind(CREATE_VERBS, "policy/v1", "Eviction"),
    "exec": SubresourceKind(CONNECT_VERBS, "v1", "PodExecOptions"),
    "finalize": SubresourceKind(("update",)),
    "log": SubresourceKind(("get",)),
    "portforward": SubresourceKind(CONNECT_VERBS, "v1", "PodPortForwardOptions"),
    "resize": SubresourceKind(),
    "scale": SubresourceKind(PART_VERBS, "autoscaling/v1", "Scale"),
    "status": SubresourceKind(),
    "token": SubresourceKind(CREATE_VERBS, "authentication.k8s.io/v1", "TokenRequest"),
}

#: A line per kind: name, plural and short names, then `cluster` if cluster-scoped, `review` if it is only a question,
#: subresources, the category with a plus, the feature gate without which it is not served, and the minor that
#: introduced it if 1.36 does not serve it.
_BUILT_IN_KINDS = """
v1
  Binding bindings, review
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
  DeviceTaintRule devicetaintrules, cluster status 1.37
  ResourceClaim resourceclaims, status
  ResourceClaimTemplate resourceclaimtemplates,
  ResourceSlice resourceslices, cluster
scheduling.k8s.io/v1
  PriorityClass priorityclasses pc, cluster
scheduling.k8s.io/v1alpha3
  CompositePodGroup compositepodgroups, status CompositePodGroup 1.37
  PodGroup podgroups, status GenericWorkload 1.37
  Workload workloads, GenericWorkload 1.37
scheduling.k8s.io/v1beta1
  PodGroup podgroups, status GenericWorkload 1.37
  Workload workloads, GenericWorkload 1.37
storage.k8s.io/v1
  CSIDriver csidrivers, cluster
  CSINode csinodes, cluster
  CSIStorageCapacity csistoragecapacities,
  StorageClass storageclasses sc, cluster
  VolumeAttachment volumeattachments, cluster status
  VolumeAttributesClass volumeattributesclasses vac, cluster
"""


class BuiltInKind(NamedTuple):
    """A kind of the stable groups.

    `traits` are `cluster`, `review`, subresources, feature gates and the minor that introduced it.
    """

    api_version: str
    name: str
    plural: str
    short_names: tuple[str, ...]
    traits: frozenset[str]
    categories: tuple[str, ...]

    def is_served(self, gates: FeatureGates) -> bool:
        """Return whether a minor of Kubernetes with these feature gates has this kind."""
        later = MINORS[MINORS.index(gates.minor) + 1 :]
        needed = (trait for trait in self.traits if trait[0].isupper())
        return self.traits.isdisjoint(later) and all(map(gates.is_enabled, needed))

    @property
    def kind(self) -> Kind[ApiObject]:
        """The kind as it is decoded here, or one with only its metadata decoded."""
        known = find_kind(self.api_version, self.name)
        namespaced = "cluster" not in self.traits
        return known or foreign_kind(self.api_version, self.name, self.plural, namespaced=namespaced)


@cache
def built_in_kinds() -> tuple[BuiltInKind, ...]:
    kinds, api_version = [], ""
    for line in _BUILT_IN_KINDS.strip().splitlines():
        if not line.startswith(" "):
            api_version = line
            continue
        names, _, rest = line.partition(",")
        name, plural, *short_names = names.split()
        traits = frozenset(each for each in rest.split() if not each.startswith("+"))
        categories = tuple(each[1:] for each in rest.split() if each.startswith("+"))
        kinds.append(BuiltInKind(api_version, name, plural, tuple(short_names), traits, categories))
    return tuple(kinds)


def group_version_kind(api_version: str, name: str) -> Data:
    group, _, version = api_version.rpartition("/")
    return {"group": group, "version": version, "kind": name}


def built_in_kind(api_version: str, name: str) -> Kind[ApiObject]:
    """Find a kind by its name; StopIteration if there is none."""
    return next(each.kind for each in built_in_kinds() if (each.api_version, each.name) == (api_version, name))


_ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_AUTOSCALER = "HorizontalPodAutoscaler"
#: Kinds that are stored in another version, by the version of the view.
_STORED_IN = {
    ("autoscaling/v1", _AUTOSCALER): "autoscaling/v2",
    ("scheduling.k8s.io/v1alpha3", "PodGroup"): "scheduling.k8s.io/v1beta1",
    ("scheduling.k8s.io/v1alpha3", "Workload"): "scheduling.k8s.io/v1beta1",
}


def identity(data: Data) -> Data:
    return data


@dataclass(frozen=True, slots=True)
class ApiResource:
    """A kind at a path of the API.

    Attributes:
        storage_kind: The kind of the stored objects; two versions of one kind are views of the same objects.
        columns: Printer columns of a custom kind.
        is_review: Whether it is answered and not stored.
        is_live: Whether the view contains more than the stored object.
        read_verbs: All verbs, if it is read-only.
        to_view, from_view: Convert stored plain data to this view, and back.
        custom: The schema of a custom kind.
    """

    kind: Kind[ApiObject]
    storage_kind: Kind[ApiObject]
    singular: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[PrinterColumn, ...] = ()
    subresources: frozenset[str] = frozenset()
    is_review: bool = False
    is_live: bool = False
    read_verbs: tuple[str, ...] = ()
    scale: ScalePaths | None = None
    to_view: Callable[[Data], Data] = identity
    from_view: Callable[[Data], Data] = identity
    custom: CustomKind | None = field(default=None, compare=False)

    @property
    def group(self) -> str:
        return self.kind.api_version.rpartition("/")[0]

    @property
    def verbs(self) -> tuple[str, ...]:
        return CREATE_VERBS if self.is_review else self.read_verbs or _ALL_VERBS

    @property
    def version(self) -> str:
        return self.kind.api_version.rpartition("/")[2]

    def body(self, document: ApiDocument) -> bytes:
        if self.is_live:
            return msgspec.json.encode(self.data(document))
        return document.body if self.to_view is identity else _encode_view(self, document.body)

    def data(self, document: ApiDocument) -> Data:
        return self.to_view(document.data)


@lru_cache(maxsize=1024)  # encoded once for all watches of a change
def _encode_view(resource: ApiResource, body: bytes) -> bytes:
    return msgspec.json.encode(resource.to_view(msgspec.json.decode(body, type=dict[str, object])))


def built_in_resource(built: BuiltInKind) -> ApiResource:
    """Return the resource of a built-in kind; events and autoscalers are stored in one of their two versions."""
    kind, singular = built.kind, built.name.lower()
    if kind.struct is CoreEvent:
        return ApiResource(kind, kind_of(Event), singular, built.short_names, to_view=to_core, from_view=from_core)
    stored_in = _STORED_IN.get((built.api_version, built.name))
    is_scaler = stored_in == "autoscaling/v2"
    to_view = to_v1 if is_scaler else identity if stored_in is None else partial(_in_version, built.api_version)
    return ApiResource(
        kind,
        built_in_kind(stored_in, built.name) if stored_in else kind,
        singular,
        built.short_names,
        built.categories,
        subresources=built.traits.intersection(SUBRESOURCES),
        is_review="review" in built.traits,
        scale=ScalePaths() if "scale" in built.traits else None,
        to_view=to_view,
        from_view=from_v1 if is_scaler else identity,
    )


def _in_version(api_version: str, data: Data) -> Data:
    return {**data, "apiVersion": api_version}


def scale_resource(resource: ApiResource, paths: ScalePaths) -> ApiResource:
    """Return a view of a resource as the Scales of its objects."""
    kind = foreign_kind(SCALE, "Scale", "scales", namespaced=True)
    return replace(resource, kind=kind, to_view=lambda data: to_scale(paths, resource.to_view(data)), is_live=True)


def declared_resource(kind: Kind[ApiObject]) -> ApiResource:
    parts = frozenset({"status"} & set(kind.struct.__struct_fields__))
    return ApiResource(kind, kind, kind.name.lower(), kind.short_names, columns=kind.columns, subresources=parts)
