"""The wire format of extenders (`k8s.io/kube-scheduler/extender/v1`): requests to JSON, answers from JSON.

The types have no JSON names of their own, so keys are Go's field names; answers may spell them in any case, as in Go.
`null` equals absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, TypeVar

import msgspec
from msgspec.structs import replace

from kframework.framework.answers import Candidate
from kframework.objects import Node, NodeSpec, NodeStatus, ObjectMeta, Pod, PodSpec, PodStatus
from kframework.objects.meta import ResourceList
from kframework.objects.pod import Resources
from kframework.state.nodes import NodeInfo
from kframework.state.pods import PendingPod, PodInfo

T = TypeVar("T", bound=msgspec.Struct)

_encode = msgspec.json.Encoder().encode


# -- questions -----------------------------------------------------------------------------------------------------


class _Object(msgspec.Struct):
    """A Node or a Pod as Go writes it inside another object: no kind, and every part of it there."""

    metadata: ObjectMeta
    spec: NodeSpec | PodSpec
    status: NodeStatus | PodStatus


def _to_wire_node(node: Node) -> _Object:
    status = node.status
    status = replace(
        status, capacity=_format_quantities(status.capacity), allocatable=_format_quantities(status.allocatable)
    )
    return _Object(node.metadata, node.spec, status)


def _to_wire_pod(pod: Pod) -> _Object:
    spec = pod.spec
    spec = replace(
        spec,
        containers=tuple(replace(each, resources=_to_wire_resources(each.resources)) for each in spec.containers),
        init_containers=tuple(
            replace(each, resources=_to_wire_resources(each.resources)) for each in spec.init_containers
        ),
        overhead=_format_quantities(spec.overhead),
        resources=_to_wire_resources(spec.resources) if spec.resources is not None else None,
    )
    return _Object(pod.metadata, spec, pod.status)


def _to_wire_resources(resources: Resources) -> Resources:
    return replace(
        resources, requests=_format_quantities(resources.requests), limits=_format_quantities(resources.limits)
    )


def _format_quantities(quantities: ResourceList) -> ResourceList:
    """Write quantities as an API server does; a file may hold numbers."""
    return {name: str(quantity) for name, quantity in quantities.items()}


class _NodeList(msgspec.Struct):
    items: list[_Object]
    metadata: Mapping[str, str] = {}


class _ExtenderArgs(msgspec.Struct, rename="pascal"):
    pod: _Object
    nodes: _NodeList | None
    node_names: list[str] | None


def encode_extender_args(pod: PendingPod, nodes: Iterable[NodeInfo], *, names_only: bool) -> bytes:
    """Encode a pod and nodes; an extender that caches nodes gets only their names."""
    subject = _to_wire_pod(pod.object)
    if names_only:
        return _encode(_ExtenderArgs(subject, None, [node.name for node in nodes]))
    return _encode(_ExtenderArgs(subject, _NodeList([_to_wire_node(node.object) for node in nodes]), None))


class _MetaPod(msgspec.Struct):
    uid: str = msgspec.field(name="UID")


class _Victims(msgspec.Struct):
    pods: Sequence[_Object | _MetaPod] = msgspec.field(name="Pods")
    violations: int = msgspec.field(name="NumPDBViolations")


class _PreemptionArgs(msgspec.Struct, rename="pascal"):
    pod: _Object
    node_name_to_victims: Mapping[str, _Victims] | None
    node_name_to_meta_victims: Mapping[str, _Victims] | None


def encode_preemption_args(pod: PendingPod, candidates: Iterable[Candidate], *, names_only: bool) -> bytes:
    """Encode the nodes where preemption would help, and the victims there."""
    subject = _to_wire_pod(pod.object)
    victims = {
        each.node: _Victims(
            [_MetaPod(victim.uid) if names_only else _to_wire_pod(_rebuild_pod(victim)) for victim in each.victims],
            each.pdb_violations,
        )
        for each in candidates
    }
    return _encode(_PreemptionArgs(subject, None, victims) if names_only else _PreemptionArgs(subject, victims, None))


def _rebuild_pod(pod: PodInfo) -> Pod:
    if isinstance(pod, PendingPod):
        return replace(pod.object, spec=replace(pod.object.spec, node_name=pod.node_name))
    return Pod(
        metadata=ObjectMeta(name=pod.name, namespace=pod.namespace, uid=pod.uid, labels=dict(pod.labels)),
        spec=replace(pod.spec, node_name=pod.node_name),
        status=PodStatus(start_time=pod.start_time, nominated_node_name=pod.nominated_node_name),
    )


class _BindingArgs(msgspec.Struct, rename="pascal"):
    pod_name: str
    pod_namespace: str
    pod_uid: str = msgspec.field(name="PodUID")
    node: str


def encode_binding_args(pod: PodInfo, node_name: str) -> bytes:
    return _encode(_BindingArgs(pod.name, pod.namespace, pod.uid, node_name))


# -- answers -------------------------------------------------------------------------------------------------------

_NULL = msgspec.Raw(b"null")
_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _Answer(msgspec.Struct, rename="lower", frozen=True):
    """The base of answers; `_read` converts their keys to lower case."""


def _decode(data: bytes | msgspec.Raw, kind: type[T]) -> T:
    """Decode an object whose keys may be spelled in any case."""
    fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw] | None) or {}
    return msgspec.json.decode(_encode({key.lower(): value for key, value in fields.items()}), type=kind)


class _FilterResult(_Answer, frozen=True):
    nodes: msgspec.Raw = _NULL
    node_names: list[str] | None = msgspec.field(default=None, name="nodenames")
    failed: dict[str, str] | None = msgspec.field(default=None, name="failednodes")
    unresolvable: dict[str, str] | None = msgspec.field(default=None, name="failedandunresolvablenodes")
    error: str | None = None


class _NodeItems(_Answer, frozen=True):
    items: list[msgspec.Raw] | None = None


class _NodeItem(_Answer, frozen=True):
    metadata: msgspec.Raw = _NULL


class _Metadata(_Answer, frozen=True):
    name: str | None = None


class FilterResult(msgspec.Struct, frozen=True):
    """The names of the passing nodes, the reasons against others, and the error."""

    passing: list[str]
    failed: dict[str, str]
    unresolvable: dict[str, str]
    error: str


def decode_filter_result(answer: bytes, *, names_only: bool) -> FilterResult:
    """Decode a filter answer, which may contain nodes or their names; raises msgspec.DecodeError."""
    result = _decode(answer, _FilterResult)
    passing = result.node_names if names_only else None
    if passing is None:
        items = _decode(result.nodes, _NodeItems).items or []
        passing = [_decode(_decode(item, _NodeItem).metadata, _Metadata).name or "" for item in items]
    return FilterResult(passing, result.failed or {}, result.unresolvable or {}, result.error or "")


class _HostPriority(_Answer, frozen=True):
    host: str | None = None
    score: _Int64 | None = None


def decode_host_priorities(answer: bytes) -> list[tuple[str, int]]:
    """Read the answer to a prioritize question, rows of host and score; raises msgspec.DecodeError."""
    rows = msgspec.json.decode(answer, type=list[msgspec.Raw] | None) or []
    return [(row.host or "", row.score or 0) for row in (_decode(row, _HostPriority) for row in rows)]


class _PreemptionResult(_Answer, frozen=True):
    victims: dict[str, msgspec.Raw] | None = msgspec.field(default=None, name="nodenametometavictims")


class _MetaVictims(_Answer, frozen=True):
    pods: list[msgspec.Raw] | None = None
    violations: _Int64 | None = msgspec.field(default=None, name="numpdbviolations")


class _Uid(_Answer, frozen=True):
    uid: str | None = None


def decode_preemption_result(answer: bytes) -> dict[str, tuple[list[str], int]]:
    """Read the answer to a preempt question, by node: uids and broken budgets; raises msgspec.DecodeError."""
    by_node = {}
    for node, data in (_decode(answer, _PreemptionResult).victims or {}).items():
        victims = _decode(data, _MetaVictims)
        by_node[node] = ([_decode(pod, _Uid).uid or "" for pod in victims.pods or []], victims.violations or 0)
    return by_node


class _BindingResult(_Answer, frozen=True):
    error: str | None = None


def decode_binding_result(answer: bytes) -> str:
    """Read the answer to a bind question, the error or nothing; raises msgspec.DecodeError."""
    return _decode(answer, _BindingResult).error or ""
