"""What is served: the kinds of Kubernetes 1.36's stable groups and others, and how their objects look in a version.

What no scheduler reads is kept as its author wrote it. The subresource `scale` looks the same for all kinds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import NamedTuple

import msgspec

from kframework.client import api_errors
from kframework.fake_api.custom.kinds import CustomKind
from kframework.fake_api.wire.documents import Data, Document
from kframework.fake_api.wire.kind_versions import from_core, from_v1, to_core, to_v1
from kframework.fake_api.wire.plain_data import mapping, number, text, value
from kframework.objects import (
    ApiObject,
    CoreEvent,
    Event,
    Kind,
    LabelSelector,
    PrinterColumn,
    kind_named,
    kind_of,
)
from kframework.objects.kinds import foreign_kind
from kframework.objects.label_selectors import label_selector

SCALE = "autoscaling/v1"

#: What of the metadata a Scale has.
_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class ScalePaths(NamedTuple):
    """Where a kind says how many replicas it is to have, and has, and which selector chooses them, if it says so."""

    spec: str = "spec.replicas"
    status: str = "status.replicas"
    selector: str = "spec.selector"


def scale_of(paths: ScalePaths, data: Data) -> Data:
    """Show an object as its Scale."""
    metadata = {name: said for name, said in mapping(data, "metadata").items() if name in _METADATA}
    status: Data = {"replicas": number(data, paths.status)}
    selector = value(data, paths.selector)  # of a custom resource that is one line
    if isinstance(selector, dict) and not selector.keys() <= {"matchLabels", "matchExpressions"}:
        selector = ",".join(f"{key}={selector[key]}" for key in sorted(selector))  # of a ReplicationController
    elif isinstance(selector, dict):
        try:
            selector = str(label_selector(msgspec.convert(selector, LabelSelector)))
        except ValueError:
            selector = ""
    if isinstance(selector, str) and selector:
        status["selector"] = selector
    spec = {"replicas": number(data, paths.spec)} if number(data, paths.spec) else {}
    return {"kind": "Scale", "apiVersion": SCALE, "metadata": metadata, "spec": spec, "status": status}


def scaled(paths: ScalePaths, data: Data, scale: Data) -> Data:
    """Return an object with the replicas that a Scale asks for; ClusterError 400 or 422 for what is none."""
    wanted = value(scale, "spec.replicas") or 0
    if scale.get("kind", "Scale") != "Scale" or not isinstance(wanted, int) or isinstance(wanted, bool):
        raise api_errors.bad_request("the body of the request is no Scale of autoscaling/v1 with whole replicas")
    if wanted < 0:
        raise api_errors.invalid_scale(text(data, "metadata.name"), wanted)
    metadata = mapping(data, "metadata")
    if version := text(scale, "metadata.resourceVersion"):
        metadata = {**metadata, "resourceVersion": version}
    return _put({**data, "metadata": metadata}, paths.spec.split("."), wanted)


def _put(data: Data, path: list[str], said: object) -> Data:
    first, *rest = path
    return {**data, first: _put(mapping(data, first), rest, said) if rest else said}


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
    kinds, api_version = [], ""
    for line in _WRITTEN.strip().splitlines():
        if not line.startswith(" "):
            api_version = line
            continue
        names, _, rest = line.partition(",")
        name, plural, *short_names = names.split()
        traits = frozenset(each for each in rest.split() if not each.startswith("+"))
        categories = tuple(each[1:] for each in rest.split() if each.startswith("+"))
        kinds.append(BuiltIn(api_version, name, plural, tuple(short_names), traits, categories))
    return tuple(kinds)


def group_version_kind(api_version: str, name: str) -> Data:
    """Name a kind as documents about the API do."""
    group, _, version = api_version.rpartition("/")
    return {"group": group, "version": version, "kind": name}


def built_in_kind(api_version: str, name: str) -> Kind[ApiObject]:
    """Find a kind by its name; StopIteration if there is none."""
    return next(each.kind for each in built_in_kinds() if (each.api_version, each.name) == (api_version, name))


_ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_AUTOSCALER = "HorizontalPodAutoscaler"


def as_is(data: Data) -> Data:
    """Show an object as it is stored."""
    return data


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind as a path of the API names it.

    `stored` is the kind under which its objects are kept: two versions of one kind are views of the same objects.
    `shown` makes of plain data as stored what this view shows, `read` the reverse. `columns` are for kinds that are not
    built in, `scale` is for those with that subresource, `custom` is what a user has defined. Of a review, which is
    answered and not kept, there are no objects. A view that `is_live` shows more than what its object says. What can
    only be read has the verbs of `reading`.
    """

    kind: Kind[ApiObject]
    stored: Kind[ApiObject]
    singular: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[PrinterColumn, ...] = ()
    subresources: frozenset[str] = frozenset()
    is_review: bool = False
    is_live: bool = False
    reading: tuple[str, ...] = ()
    scale: ScalePaths | None = None
    shown: Callable[[Data], Data] = as_is
    read: Callable[[Data], Data] = as_is
    custom: CustomKind | None = field(default=None, compare=False)

    @property
    def group(self) -> str:
        """The API group, empty for the core."""
        return self.kind.api_version.rpartition("/")[0]

    @property
    def verbs(self) -> tuple[str, ...]:
        """What can be done to objects of the kind."""
        return SENT if self.is_review else self.reading or _ALL_VERBS

    @property
    def version(self) -> str:
        """The version within the group."""
        return self.kind.api_version.rpartition("/")[2]

    def body(self, document: Document) -> bytes:
        """The JSON of an object in this view."""
        if self.is_live:
            return msgspec.json.encode(self.data(document))
        return document.body if self.shown is as_is else _viewed(self, document.body)

    def data(self, document: Document) -> Data:
        """The same as plain data."""
        return self.shown(document.data)


@lru_cache(maxsize=1024)  # as many watch a change as may, it is encoded once
def _viewed(resource: Resource, body: bytes) -> bytes:
    return msgspec.json.encode(resource.shown(msgspec.json.decode(body, type=dict[str, object])))


def built_in(built: BuiltIn) -> Resource:
    """Serve a kind of Kubernetes' stable groups; of events and of autoscalers both versions are kept as one kind."""
    kind, singular = built.kind, built.name.lower()
    if kind.struct is CoreEvent:
        return Resource(kind, kind_of(Event), singular, built.short_names, shown=to_core, read=from_core)
    is_view = (built.api_version, built.name) == ("autoscaling/v1", _AUTOSCALER)
    return Resource(
        kind,
        built_in_kind("autoscaling/v2", _AUTOSCALER) if is_view else kind,
        singular,
        built.short_names,
        built.categories,
        subresources=built.traits.intersection(SUBRESOURCES),
        is_review="review" in built.traits,
        scale=ScalePaths() if "scale" in built.traits else None,
        shown=to_v1 if is_view else as_is,
        read=from_v1 if is_view else as_is,
    )


def declared(kind: Kind[ApiObject]) -> Resource:
    """Serve a kind that a plugin has declared."""
    parts = frozenset({"status"} & set(kind.struct.__struct_fields__))
    return Resource(kind, kind, kind.name.lower(), kind.short_names, columns=kind.columns, subresources=parts)
