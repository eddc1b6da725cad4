"""Defaults and validation of an API server when an object is created or updated; pure functions.

Fields that are set are left alone, so an object from `kubectl get` passes through unchanged. Fields that controllers
and kubelets would set are not added: no taints for a node's conditions, no hostname label.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from functools import cache
from typing import TypeVar, cast

import msgspec
from msgspec import NODEFAULT, to_builtins
from msgspec.structs import fields, replace

from kframework.client import api_errors
from kframework.client.transitions import with_condition
from kframework.errors import InputError
from kframework.in_memory import device_admission
from kframework.in_memory.generations import has_generation, is_custom, wants_the_same
from kframework.objects import (
    ApiObject,
    Container,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    Job,
    LabelSelector,
    LabelSelectorRequirement,
    Lease,
    Namespace,
    NamespaceStatus,
    Node,
    ObjectMeta,
    PersistentVolumeClaim,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodCondition,
    PodDisruptionBudget,
    PodSpec,
    PodStatus,
    PriorityClass,
    ResourceList,
    Resources,
    StorageClass,
    Toleration,
    VolumeAttachment,
    kind_of,
)
from kframework.objects.codec import convert, spelled
from kframework.objects.identity import cached_by_identity
from kframework.objects.kinds import T
from kframework.objects.meta import ApiStruct
from kframework.objects.requests import fit_requests
from kframework.objects.validation import first_problem

Terms = TypeVar("Terms", PodAffinity, PodAntiAffinity)

_PREEMPTS = "PreemptLowerPriority"
#: The priority classes that every cluster has.
SYSTEM_CLASSES = (
    PriorityClass(metadata=ObjectMeta(name="system-cluster-critical"), value=2_000_000_000),
    PriorityClass(metadata=ObjectMeta(name="system-node-critical"), value=2_000_001_000),
)
_TOLERATED_FOR_A_WHILE = tuple(
    Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=300)
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
)
#: Kinds whose updates must name the last version; so must those of all kinds that plugins declare.
_NEED_VERSION = (CSIDriver, CSINode, CSIStorageCapacity, Lease, PodDisruptionBudget, VolumeAttachment)

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_PLACES = tuple(len(_SUFFIX_LETTERS) ** place for place in range(5))


def as_request(subject: T) -> T:
    """Drop fields that a client cannot set when it creates an object: uid, times, and a status unless it is a node's.

    ClusterError 500 if it names a version. A node keeps its status because a kubelet creates it.
    """
    if subject.metadata.resource_version:
        raise api_errors.version_forbidden()
    metadata = replace(
        subject.metadata,
        uid="",
        generation=0,
        creation_timestamp=None,
        deletion_timestamp=None,
        deletion_grace_period_seconds=None,
    )
    subject = replace(subject, metadata=metadata)
    if isinstance(subject, Node) or not _has_status(subject):
        return subject
    return replace(subject, status=_no_status(type(subject)))


@cache  # to look into a struct's fields takes longer than all else about a new object
def _no_status(kind: type[ApiObject]) -> object:
    """Return the initial status of an object."""
    field = next(field for field in fields(kind) if field.name == "status")
    return field.default if field.default_factory is NODEFAULT else field.default_factory()


def generated_name(prefix: str, number: int) -> str:
    """Complete a `generateName`; the same number always gives the same name."""
    scattered, letters = number * 7_368_787, len(_SUFFIX_LETTERS)
    suffix = [_SUFFIX_LETTERS[scattered // place % letters] for place in _SUFFIX_PLACES]
    return prefix[: 63 - len(suffix)] + "".join(suffix)


def admitted(subject: T, version: int, now: str, classes: Collection[PriorityClass]) -> T:
    """Fill in an object that is about to be created as `version`; ClusterError 403 (its priority class) or 422."""
    _check(subject)
    kind, metadata = kind_of(subject), subject.metadata
    namespace = (metadata.namespace or "default") if kind.namespaced else ""
    metadata = replace(
        metadata,
        namespace=namespace,
        uid=metadata.uid or uid_of(f"{kind.plural}/{namespace}/{metadata.name}/{version}/{now}"),
        creation_timestamp=metadata.creation_timestamp or now,
        generation=metadata.generation or _first_generation(type(subject)),
    )
    return cast("T", _filled(replace(subject, metadata=metadata), now, classes))


@cache  # a kind is hashed by all its fields
def _first_generation(kind: type[ApiObject]) -> int:
    return int(has_generation(kind_of(kind)))


def _filled(subject: ApiObject, now: str, classes: Collection[PriorityClass]) -> ApiObject:
    match subject:
        case Pod():
            return _pod(subject, now, classes)
        case Node(status=status):
            return replace(subject, status=replace(status, allocatable=status.allocatable or status.capacity))
        case Namespace(metadata=metadata):
            labels = {"kubernetes.io/metadata.name": metadata.name} | metadata.labels
            spec = replace(subject.spec, finalizers=subject.spec.finalizers or ("kubernetes",))
            phase = NamespaceStatus(phase=subject.status.phase or "Active")
            return replace(subject, metadata=replace(metadata, labels=labels), spec=spec, status=phase)
        case Job() if not subject.spec.manual_selector:
            return _selecting_its_own(subject)
        case StorageClass(volume_binding_mode=mode, reclaim_policy=policy):
            return replace(subject, volume_binding_mode=mode or "Immediate", reclaim_policy=policy or "Delete")
        case PersistentVolumeClaim(status=status):
            return replace(subject, status=replace(status, phase=status.phase or "Pending"))
        case CSIDriver() if subject.spec.attach_required is None:
            return replace(subject, spec=replace(subject.spec, attach_required=True))
        case PriorityClass():
            return replace(subject, preemption_policy=subject.preemption_policy or _PREEMPTS)
    return device_admission.filled(subject, now)


def _selecting_its_own(job: Job) -> Job:
    """Set a job's selector to the unique labels of the pods that it creates."""
    metadata, spec, template = job.metadata, job.spec, job.spec.template
    labels = {"job-name": metadata.name, "controller-uid": metadata.uid}
    labels |= {f"batch.kubernetes.io/{label}": text for label, text in labels.items()}
    selector = spec.selector or LabelSelector()
    matched = {"batch.kubernetes.io/controller-uid": metadata.uid} | selector.match_labels
    template = replace(template, metadata=replace(template.metadata, labels=labels | template.metadata.labels))
    return replace(job, spec=replace(spec, selector=replace(selector, match_labels=matched), template=template))


def updated(old: T, new: T) -> T:
    """Carry over fields that an update cannot change; ClusterError 422 if it is invalid, moves a pod or adds gates.

    Also if it adds finalizers to an object being deleted, and as `device_admission.updated`.
    """
    _check(new)
    metadata = replace(
        new.metadata,
        namespace=old.metadata.namespace,
        uid=old.metadata.uid,
        resource_version=old.metadata.resource_version,
        generation=old.metadata.generation,
        creation_timestamp=old.metadata.creation_timestamp,
        deletion_timestamp=old.metadata.deletion_timestamp,
        deletion_grace_period_seconds=old.metadata.deletion_grace_period_seconds,
    )
    if old.metadata.deletion_timestamp is not None:
        _check_finalizers(old, new)
    if not wants_the_same(old, new):
        if isinstance(old, Pod) and isinstance(new, Pod):
            _check_spec(old, new)
        metadata = replace(metadata, generation=metadata.generation + 1)
    return device_admission.updated(old, replace(new, metadata=metadata))


def check_version(subject: ApiObject) -> None:
    """Raise ClusterError 422 if the required resource version of an update is missing."""
    kind, metadata = type(subject), subject.metadata
    if not metadata.resource_version and (kind in _NEED_VERSION or is_custom(kind_of(kind))):
        raise api_errors.version_required(kind, metadata.name)


def check_identity(old: T, new: T) -> None:
    """Raise ClusterError 400 or 422 if a patch changes the identity of its object."""
    was, said = old.metadata, new.metadata
    for field, here, there in (("name", was.name, said.name), ("namespace", was.namespace, said.namespace)):
        if there not in (here, ""):
            why = f"the {field} of the object ({there:.253}) does not match the {field} on the URL ({here})"
            raise api_errors.bad_request(why)
    if said.uid not in (was.uid, ""):
        raise api_errors.immutable_uid(type(old), was.name, said.uid)


def merge_patch(target: object, patch: object) -> object:
    """Merge a patch into plain data as RFC 7386 has it: null deletes, mappings merge, all else replaces."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for field, value in patch.items():
        if value is None:
            merged.pop(field, None)
        else:
            merged[field] = merge_patch(merged.get(field), value)
    return merged


def patched(subject: T, patch: Mapping[str, object]) -> T:
    """Return an object with a JSON merge patch applied to it; ClusterError 400 if the result is invalid."""
    parts = _parts(type(subject))
    if patch.keys() <= parts.keys():
        try:
            merged = {name: merge_patch(to_builtins(getattr(subject, name)), patch[name]) for name in patch}
            return replace(subject, **{name: msgspec.convert(merged[name], parts[name]) for name in patch})
        except msgspec.ValidationError:
            pass  # as a whole, for an error with the path
    try:
        return convert(merge_patch(to_builtins(subject), patch), kind_of(type(subject)))
    except InputError as error:
        raise api_errors.bad_request(str(error)) from error


@cache
def _parts(kind: type[ApiObject]) -> dict[str, object]:
    """Return metadata, spec and status of a kind with their types: of an object a patch mostly changes one of them."""
    return {
        field.name: field.type
        for field in fields(kind)
        if field.name == field.encode_name and isinstance(field.type, type) and issubclass(field.type, ApiStruct)
    }


def check_status(kind: type[ApiObject]) -> None:
    """Raise ClusterError 404 for a kind that has no status."""
    if not _has_status(kind):
        raise api_errors.unknown_kind()


def of_main(old: T, new: T) -> T:
    """Take all from the new but the status, which only its own requests change."""
    return replace(new, status=old.status) if _has_status(old) else new  # type: ignore[attr-defined]  # it has one


def _has_status(subject: ApiObject | type[ApiObject]) -> bool:
    return "status" in subject.__struct_fields__


def _check(subject: ApiObject) -> None:
    problem = first_problem(subject)
    if problem is not None:
        raise api_errors.invalid(type(subject), subject.metadata.name, spelled(problem.path), problem.message)


def _check_spec(old: Pod, new: Pod) -> None:
    name = old.metadata.name
    if new.spec.node_name != old.spec.node_name:
        raise api_errors.invalid(Pod, name, "spec.nodeName", "Forbidden: only a binding may set it")
    for gate in new.spec.scheduling_gates:
        if gate not in old.spec.scheduling_gates:
            why = f'Forbidden: only deletion is allowed, but found new scheduling gate "{gate.name}"'
            raise api_errors.invalid(Pod, name, "spec.schedulingGates", why)


def _check_finalizers(old: ApiObject, new: ApiObject) -> None:
    added = [each for each in new.metadata.finalizers if each not in old.metadata.finalizers]
    if added:
        found = ", ".join(f'"{each}"' for each in sorted(added))
        why = (
            "Forbidden: no new finalizers can be added if the object is being deleted, "
            f"found new finalizers []string{{{found}}}"
        )
        raise api_errors.invalid(type(old), old.metadata.name, "metadata.finalizers", why)


def uid_of(seed: str) -> str:
    """Derive a uid, so that two runs agree on it that begin at the same time; later ones must not, as in life."""
    digits = hashlib.md5(seed.encode(), usedforsecurity=False).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _pod(pod: Pod, now: str, classes: Collection[PriorityClass]) -> Pod:
    spec = _pod_spec(pod.spec, pod.metadata.labels, _priority_class(pod, classes))
    return replace(pod, spec=spec, status=_first_status(pod.status, pod.spec, now))


@cached_by_identity
def _pod_spec(spec: PodSpec, labels: Mapping[str, str], priority_class: PriorityClass | None) -> PodSpec:
    spec = _with_priority(spec, priority_class)
    grace = spec.termination_grace_period_seconds
    # The pod stays for a while on a node that is not ready or unreachable, unless it has its own toleration.
    told = {each.key for each in spec.tolerations if each.effect in ("NoExecute", "")}
    spec = replace(
        spec,
        containers=tuple(_container(container, spec) for container in spec.containers),
        init_containers=tuple(_container(container, spec) for container in spec.init_containers),
        scheduler_name=spec.scheduler_name or "default-scheduler",
        restart_policy=spec.restart_policy or "Always",
        termination_grace_period_seconds=30 if grace is None else grace,
        tolerations=(*spec.tolerations, *(each for each in _TOLERATED_FOR_A_WHILE if told.isdisjoint((each.key, "")))),
    )
    if spec.resources is not None:
        spec = replace(spec, resources=_pod_level(spec, spec.resources))
    if spec.affinity is not None:
        together, apart = spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity
        affinity = replace(
            spec.affinity,
            pod_affinity=together and _terms(together, labels),
            pod_anti_affinity=apart and _terms(apart, labels),
        )
        spec = replace(spec, affinity=affinity)
    if spec.topology_spread_constraints:
        constraints = [
            replace(each, label_selector=_selector(each.label_selector, each.match_label_keys, "In", labels))
            for each in spec.topology_spread_constraints
        ]
        spec = replace(spec, topology_spread_constraints=tuple(constraints))
    return spec


@cached_by_identity
def _first_status(status: PodStatus, spec: PodSpec, now: str) -> PodStatus:
    status = replace(status, phase=status.phase or "Pending")
    if not spec.scheduling_gates or any(each.type == "PodScheduled" for each in status.conditions):
        return status
    gated = PodCondition(
        type="PodScheduled",
        status="False",
        reason="SchedulingGated",
        message="Scheduling is blocked due to non-empty scheduling gates",
    )
    return replace(status, conditions=with_condition(status.conditions, gated, now))


def _container(container: Container, spec: PodSpec) -> Container:
    """Default requests to limits and, on the host's network, host ports to container ports."""
    resources, ports = container.resources, container.ports
    if not resources.limits.keys() <= resources.requests.keys():
        resources = replace(resources, requests=resources.limits | resources.requests)
    if ports and spec.host_network:
        ports = tuple(replace(port, host_port=port.host_port or port.container_port) for port in ports)
    return replace(container, resources=resources, ports=ports)


def _pod_level(spec: PodSpec, resources: Resources) -> Resources:
    """If a pod has its own limits: request the sum of its containers' requests, and for the rest the limits."""
    if not resources.limits:
        return resources
    together = fit_requests(replace(spec, resources=None, overhead={}))
    requests: ResourceList = {
        name: f"{together[name]}m" if name == "cpu" else str(together[name])
        for name in ("cpu", "memory")
        if name in together
    }
    return replace(resources, requests=resources.limits | requests | resources.requests)


def _priority_class(pod: Pod, classes: Collection[PriorityClass]) -> PriorityClass | None:
    """Return the class of a pod; None if it has a priority: it keeps that, where an API server would reject it.

    So printed pods can be read without their classes, and hand-written ones may have a priority and no class.
    """
    name = pod.spec.priority_class_name
    if pod.spec.priority is not None:
        return None
    if not name and not classes:
        return _NO_CLASS
    if not name:
        defaults = (each for each in classes if each.global_default)
        return min(defaults, key=lambda each: each.value, default=_NO_CLASS)
    found = next((each for each in (*classes, *SYSTEM_CLASSES) if each.metadata.name == name), None)
    if found is None:
        raise api_errors.forbidden(Pod, pod.metadata.name, f"no PriorityClass with name {name} was found")
    return found


_NO_CLASS = PriorityClass()


def _with_priority(spec: PodSpec, found: PriorityClass | None) -> PodSpec:
    if found is None:
        return replace(spec, preemption_policy=spec.preemption_policy or _PREEMPTS)
    return replace(
        spec,
        priority=found.value,
        priority_class_name=found.metadata.name,
        preemption_policy=spec.preemption_policy or found.preemption_policy or _PREEMPTS,
    )


def _terms(terms: Terms, labels: Mapping[str, str]) -> Terms:
    return replace(
        terms,
        required_during_scheduling_ignored_during_execution=tuple(
            _term(term, labels) for term in terms.required_during_scheduling_ignored_during_execution
        ),
        preferred_during_scheduling_ignored_during_execution=tuple(
            replace(weighted, pod_affinity_term=_term(weighted.pod_affinity_term, labels))
            for weighted in terms.preferred_during_scheduling_ignored_during_execution
        ),
    )


def _term(term: PodAffinityTerm, labels: Mapping[str, str]) -> PodAffinityTerm:
    selector = _selector(term.label_selector, term.match_label_keys, "In", labels)
    return replace(term, label_selector=_selector(selector, term.mismatch_label_keys, "NotIn", labels))


def _selector(
    selector: LabelSelector | None, keys: tuple[str, ...], operator: str, labels: Mapping[str, str]
) -> LabelSelector | None:
    """Require (In) or exclude (NotIn) the pod's own values of these labels; no selector stays none."""
    if selector is None or not keys:
        return selector
    own = (LabelSelectorRequirement(key=key, operator=operator, values=(labels[key],)) for key in keys if key in labels)
    added = (requirement for requirement in own if requirement not in selector.match_expressions)
    return replace(selector, match_expressions=(*selector.match_expressions, *added))
