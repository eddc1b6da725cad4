"""Defaults and validation of an API server when an object is created or updated; pure functions.

Fields that are set are left alone, so an object from `kubectl get` passes through unchanged. Fields that controllers
and kubelets would set are not added: no taints for a node's conditions, no hostname label.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import TypeVar, cast

import msgspec
from msgspec import NODEFAULT, to_builtins
from msgspec.structs import fields, replace

from kframework.client import api_errors
from kframework.client.transitions import with_condition
from kframework.errors import InputError
from kframework.in_memory import device_admission, group_admission
from kframework.in_memory.generations import has_generation, has_same_spec, is_custom
from kframework.in_memory.pod_admission import (
    PREEMPT_LOWER_PRIORITY,
    Policies,
    check_global_default,
    check_limits,
    find_priority_class,
    find_runtime_class,
    limit_pod,
    was_admitted,
    with_item_defaults,
    with_priority,
    with_runtime_class,
)
from kframework.objects import (
    ApiObject,
    CompositePodGroup,
    Container,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    DaemonSet,
    Job,
    LabelSelector,
    LabelSelectorRequirement,
    Lease,
    LimitRange,
    Namespace,
    NamespaceStatus,
    Node,
    PersistentVolumeClaim,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodCondition,
    PodDisruptionBudget,
    PodGroup,
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
from kframework.objects.codec import convert
from kframework.objects.identity import cached_by_identity
from kframework.objects.kinds import T
from kframework.objects.meta import ApiStruct
from kframework.objects.problem import format_path
from kframework.objects.requests import fit_requests
from kframework.objects.validation import find_problem

Terms = TypeVar("Terms", PodAffinity, PodAntiAffinity)

_DEFAULT_TOLERATIONS = tuple(
    Toleration(key=key, operator="Exists", effect="NoExecute", toleration_seconds=300)
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
)
#: Kinds whose updates must give a resource version; so must those of all custom kinds.
_VERSION_REQUIRED = (CSIDriver, CSINode, CSIStorageCapacity, Lease, PodDisruptionBudget, VolumeAttachment)

_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_WEIGHTS = tuple(len(_SUFFIX_LETTERS) ** weight for weight in range(5))


def prepare_for_create(subject: T) -> T:
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
    return replace(subject, status=_initial_status(type(subject)))


@cache  # inspecting a struct's fields takes longer than all else about a new object
def _initial_status(kind: type[ApiObject]) -> object:
    field = next(field for field in fields(kind) if field.name == "status")
    return field.default if field.default_factory is NODEFAULT else field.default_factory()


def generate_name(prefix: str, number: int) -> str:
    """Complete a `generateName`; the same number always gives the same name."""
    scrambled, letters = number * 7_368_787, len(_SUFFIX_LETTERS)
    suffix = [_SUFFIX_LETTERS[scrambled // weight % letters] for weight in _SUFFIX_WEIGHTS]
    return prefix[: 63 - len(suffix)] + "".join(suffix)


def admit_create(subject: T, version: int, now: str, policies: Policies) -> T:
    """Fill in an object that is about to be created as `version`; ClusterError 403 (by policies) or 422."""
    _validate(subject)
    kind, metadata = kind_of(subject), subject.metadata
    namespace = (metadata.namespace or "default") if kind.namespaced else ""
    metadata = replace(
        metadata,
        namespace=namespace,
        uid=metadata.uid or derive_uid(f"{kind.plural}/{namespace}/{metadata.name}/{version}/{now}"),
        creation_timestamp=metadata.creation_timestamp or now,
        generation=metadata.generation or _first_generation(type(subject)),
    )
    return _set_defaults(replace(subject, metadata=metadata), now, policies)  # type: ignore[return-value]  # of its kind


@cache  # a kind is hashed by all its fields
def _first_generation(kind: type[ApiObject]) -> int:
    return int(has_generation(kind_of(kind)))


def _set_defaults(subject: ApiObject, now: str, policies: Policies) -> ApiObject:
    match subject:
        case Pod():
            return _default_pod(subject, now, policies)
        case Node(status=status):
            return replace(subject, status=replace(status, allocatable=status.allocatable or status.capacity))
        case Namespace(metadata=metadata):
            labels = {"kubernetes.io/metadata.name": metadata.name} | metadata.labels
            spec = replace(subject.spec, finalizers=subject.spec.finalizers or ("kubernetes",))
            phase = NamespaceStatus(phase=subject.status.phase or "Active")
            return replace(subject, metadata=replace(metadata, labels=labels), spec=spec, status=phase)
        case Job():
            return _default_job(subject)
        case DaemonSet():
            return _with_template_generation(subject, max(1, template_generation(subject)))
        case StorageClass(volume_binding_mode=mode, reclaim_policy=policy):
            return replace(subject, volume_binding_mode=mode or "Immediate", reclaim_policy=policy or "Delete")
        case PersistentVolumeClaim(status=status):
            if policies.limit_ranges and not was_admitted(subject):
                check_limits(subject, policies.limit_ranges)
            return replace(subject, status=replace(status, phase=status.phase or "Pending"))
        case CSIDriver() if subject.spec.attach_required is None:
            return replace(subject, spec=replace(subject.spec, attach_required=True))
        case LimitRange(spec=spec):
            return replace(subject, spec=replace(spec, limits=tuple(map(with_item_defaults, spec.limits))))
        case PriorityClass():
            if not was_admitted(subject):
                check_global_default(subject, policies.priority_classes)
            return replace(subject, preemption_policy=subject.preemption_policy or PREEMPT_LOWER_PRIORITY)
        case PodGroup() | CompositePodGroup():
            return group_admission.set_defaults(subject, policies.priority_classes)
    return device_admission.set_defaults(subject, now)


def _default_job(job: Job) -> Job:
    """Select a job's pods by unique labels, unless its author does; a job without labels has those of its template."""
    metadata, spec, template = job.metadata, job.spec, job.spec.template
    labels = template.metadata.labels
    if not spec.manual_selector:
        unique = {"job-name": metadata.name, "controller-uid": metadata.uid}
        labels = unique | {f"batch.kubernetes.io/{label}": text for label, text in unique.items()} | labels
        selector = spec.selector or LabelSelector()
        matched = {"batch.kubernetes.io/controller-uid": metadata.uid} | selector.match_labels
        template = replace(template, metadata=replace(template.metadata, labels=labels))
        spec = replace(spec, selector=replace(selector, match_labels=matched), template=template)
    return replace(job, metadata=replace(metadata, labels=metadata.labels or labels), spec=spec)


#: The annotation of a DaemonSet that counts the changes of its template.
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def template_generation(daemon_set: DaemonSet) -> int:
    """Return how often a DaemonSet's template has changed, from 1; 0 if it does not say."""
    text = daemon_set.metadata.annotations.get(_TEMPLATE_GENERATION, "")
    return int(text) if text.isdecimal() and len(text) < 19 else 0


def _with_template_generation(daemon_set: DaemonSet, generation: int) -> DaemonSet:
    annotations = daemon_set.metadata.annotations | {_TEMPLATE_GENERATION: str(generation)}
    return replace(daemon_set, metadata=replace(daemon_set.metadata, annotations=annotations))


def admit_update(old: T, new: T) -> T:
    """Carry over fields that an update cannot change; ClusterError 422 if it is invalid, moves a pod or adds gates.

    Also if it adds finalizers to an object being deleted, and as `device_admission.admit_update` and
    `group_admission.admit_update`.
    """
    new = group_admission.admit_update(old, new)
    _validate(new)
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
    if not has_same_spec(old, new):
        if isinstance(old, Pod) and isinstance(new, Pod):
            _validate_pod_update(old, new)
        metadata = replace(metadata, generation=metadata.generation + 1)
    new = replace(new, metadata=metadata)
    if isinstance(old, DaemonSet) and isinstance(new, DaemonSet):
        generation = template_generation(old) + (old.spec.template != new.spec.template)
        return cast("T", _with_template_generation(new, generation))
    return device_admission.admit_update(old, new)


def check_version(subject: ApiObject) -> None:
    """Raise ClusterError 422 if the required resource version of an update is missing."""
    kind, metadata = type(subject), subject.metadata
    if not metadata.resource_version and (kind in _VERSION_REQUIRED or is_custom(kind_of(kind))):
        raise api_errors.version_required(kind, metadata.name)


def check_identity(old: T, new: T) -> None:
    """Raise ClusterError 400 or 422 if a patch changes the identity of its object."""
    before, after = old.metadata, new.metadata
    for field, stored, sent in (("name", before.name, after.name), ("namespace", before.namespace, after.namespace)):
        if sent not in (stored, ""):
            why = f"the {field} of the object ({sent:.253}) does not match the {field} on the URL ({stored})"
            raise api_errors.bad_request(why)
    if after.uid not in (before.uid, ""):
        raise api_errors.immutable_uid(type(old), before.name, after.uid)


def merge_patch(target: object, patch: object) -> object:
    """Merge a patch into plain data by RFC 7386: null deletes, mappings merge, all else replaces."""
    if not isinstance(patch, dict):  # a Mapping is none of JSON, and to ask for it takes 1 us for each leaf
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for field, value in patch.items():
        if value is None:
            merged.pop(field, None)
        elif isinstance(value, dict):
            merged[field] = merge_patch(merged.get(field), value)
        else:
            merged[field] = value
    return merged


def apply_patch(subject: T, patch: Mapping[str, object]) -> T:
    """Return an object with a JSON merge patch applied to it; ClusterError 400 if the result is invalid."""
    parts = _struct_fields(type(subject))
    if patch.keys() <= parts.keys():
        try:
            merged = {name: merge_patch(to_builtins(getattr(subject, name)), patch[name]) for name in patch}
            return replace(subject, **{name: msgspec.convert(merged[name], parts[name]) for name in patch})
        except msgspec.ValidationError:
            pass  # convert the whole object, for an error with the path
    try:
        return convert(merge_patch(to_builtins(subject), patch), kind_of(type(subject)))
    except InputError as error:
        raise api_errors.bad_request(str(error)) from error


@cache
def _struct_fields(kind: type[ApiObject]) -> dict[str, object]:
    """Return the fields of a kind that are structs, with their types: most patches change one of them."""
    return {
        field.name: field.type
        for field in fields(kind)
        if field.name == field.encode_name and isinstance(field.type, type) and issubclass(field.type, ApiStruct)
    }


def check_status(kind: type[ApiObject]) -> None:
    if not _has_status(kind):
        raise api_errors.unknown_kind()


def keep_status(old: T, new: T) -> T:
    """Return the new object with the old status, which only status requests change."""
    return replace(new, status=old.status) if _has_status(old) else new  # type: ignore[attr-defined]  # it has one


def _has_status(subject: ApiObject | type[ApiObject]) -> bool:
    return "status" in subject.__struct_fields__


def _validate(subject: ApiObject) -> None:
    problem = find_problem(subject)
    if problem is not None:
        raise api_errors.invalid(type(subject), subject.metadata.name, format_path(problem.path), problem.message)


def _validate_pod_update(old: Pod, new: Pod) -> None:
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
        names = ", ".join(f'"{each}"' for each in sorted(added))
        why = (
            "Forbidden: no new finalizers can be added if the object is being deleted, "
            f"found new finalizers []string{{{names}}}"
        )
        raise api_errors.invalid(type(old), old.metadata.name, "metadata.finalizers", why)


def derive_uid(seed: str) -> str:
    """Derive a uid from a seed, so that runs that start at the same (virtual) time are repeatable."""
    digits = hashlib.md5(seed.encode(), usedforsecurity=False).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _default_pod(pod: Pod, now: str, policies: Policies) -> Pod:
    priority_class = find_priority_class(pod, policies.priority_classes)
    runtime_class = find_runtime_class(pod, policies.runtime_classes)
    spec = _default_pod_spec(pod.spec, pod.metadata.labels, priority_class)
    pod = replace(pod, spec=spec, status=_initial_pod_status(pod.status, pod.spec, now))
    if policies.limit_ranges and not was_admitted(pod):
        pod = limit_pod(pod, policies.limit_ranges)
    return pod if runtime_class is None else replace(pod, spec=with_runtime_class(pod.spec, runtime_class))


@cached_by_identity
def _default_pod_spec(spec: PodSpec, labels: Mapping[str, str], priority_class: PriorityClass | None) -> PodSpec:
    spec = with_priority(spec, priority_class)
    grace = spec.termination_grace_period_seconds
    # By default a pod tolerates nodes that are not ready or unreachable for five minutes.
    tolerated = {each.key for each in spec.tolerations if each.effect in ("NoExecute", "")}
    spec = replace(
        spec,
        containers=tuple(_default_container(container, spec) for container in spec.containers),
        init_containers=tuple(_default_container(container, spec) for container in spec.init_containers),
        scheduler_name=spec.profile_name,
        restart_policy=spec.restart_policy or "Always",
        termination_grace_period_seconds=30 if grace is None else grace,
        tolerations=(
            *spec.tolerations,
            *(each for each in _DEFAULT_TOLERATIONS if tolerated.isdisjoint((each.key, ""))),
        ),
    )
    if spec.resources is not None:
        spec = replace(spec, resources=_default_pod_resources(spec, spec.resources))
    if spec.affinity is not None:
        affinity, anti_affinity = spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity
        merged = replace(
            spec.affinity,
            pod_affinity=affinity and _merge_term_keys(affinity, labels),
            pod_anti_affinity=anti_affinity and _merge_term_keys(anti_affinity, labels),
        )
        spec = replace(spec, affinity=merged)
    if spec.topology_spread_constraints:
        constraints = [
            replace(each, label_selector=_merge_label_keys(each.label_selector, each.match_label_keys, "In", labels))
            for each in spec.topology_spread_constraints
        ]
        spec = replace(spec, topology_spread_constraints=tuple(constraints))
    return spec


@cached_by_identity
def _initial_pod_status(status: PodStatus, spec: PodSpec, now: str) -> PodStatus:
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


def _default_container(container: Container, spec: PodSpec) -> Container:
    """Default requests to limits and, on the host's network, host ports to container ports."""
    resources, ports = container.resources, container.ports
    if not resources.limits.keys() <= resources.requests.keys():
        resources = replace(resources, requests=resources.limits | resources.requests)
    if ports and spec.host_network:
        ports = tuple(replace(port, host_port=port.host_port or port.container_port) for port in ports)
    return replace(container, resources=resources, ports=ports)


def _default_pod_resources(spec: PodSpec, resources: Resources) -> Resources:
    """If a pod has its own limits: request the sum of its containers' requests, and for the rest the limits."""
    if not resources.limits:
        return resources
    total = fit_requests(replace(spec, resources=None, overhead={}))
    requests: ResourceList = {
        name: f"{total[name]}m" if name == "cpu" else str(total[name]) for name in ("cpu", "memory") if name in total
    }
    return replace(resources, requests=resources.limits | requests | resources.requests)


def _merge_term_keys(terms: Terms, labels: Mapping[str, str]) -> Terms:
    return replace(
        terms,
        required_during_scheduling_ignored_during_execution=tuple(
            _merge_keys(term, labels) for term in terms.required_during_scheduling_ignored_during_execution
        ),
        preferred_during_scheduling_ignored_during_execution=tuple(
            replace(weighted, pod_affinity_term=_merge_keys(weighted.pod_affinity_term, labels))
            for weighted in terms.preferred_during_scheduling_ignored_during_execution
        ),
    )


def _merge_keys(term: PodAffinityTerm, labels: Mapping[str, str]) -> PodAffinityTerm:
    selector = _merge_label_keys(term.label_selector, term.match_label_keys, "In", labels)
    return replace(term, label_selector=_merge_label_keys(selector, term.mismatch_label_keys, "NotIn", labels))


def _merge_label_keys(
    selector: LabelSelector | None, keys: tuple[str, ...], operator: str, labels: Mapping[str, str]
) -> LabelSelector | None:
    """Require (In) or exclude (NotIn) the pod's own values of these labels; no selector stays none."""
    if selector is None or not keys:
        return selector
    own = (LabelSelectorRequirement(key=key, operator=operator, values=(labels[key],)) for key in keys if key in labels)
    added = (requirement for requirement in own if requirement not in selector.match_expressions)
    return replace(selector, match_expressions=(*selector.match_expressions, *added))
