"""Admission of groups of pods and of workloads, by the rules of scheduling.k8s.io in Kubernetes 1.37."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

from msgspec.structs import replace

from kframework.client import api_errors
from kframework.in_memory.pod_admission import AdmissionError, resolve_priority_class, was_admitted
from kframework.objects import CompositePodGroup, DisruptionMode, PodGroup, PriorityClass, Workload
from kframework.objects.kinds import T
from kframework.objects.pod_group_rules import group_change_problems, group_status_problems
from kframework.objects.pod_groups import CHOSEN

Group = PodGroup | CompositePodGroup

#: The finalizer that keeps a group until all its pods have ended.
PROTECTION = "scheduling.k8s.io/podgroup-protection"

_SINGLE = DisruptionMode(single=CHOSEN)


def set_defaults(group: Group, classes: Collection[PriorityClass]) -> Group:
    """Fill in the mode of disruption, the priority of the group's class and its protection; AdmissionError."""
    group = replace(group, spec=replace(group.spec, disruption_mode=group.spec.disruption_mode or _SINGLE))
    if isinstance(group, PodGroup) and PROTECTION not in group.metadata.finalizers and not was_admitted(group):
        finalizers = (*group.metadata.finalizers, PROTECTION)
        group = replace(group, metadata=replace(group.metadata, finalizers=finalizers))
    return _with_priority(group, classes)


def _with_priority(group: Group, classes: Collection[PriorityClass]) -> Group:
    """Return the group with the priority of its class; as for pods, a priority without a class is kept."""
    spec = group.spec
    name, priority = spec.priority_class_name, spec.priority
    if not name and priority is not None:
        return group
    priority_class = resolve_priority_class(group, name, priority, classes)
    if priority_class is None:
        return group
    if priority not in (None, priority_class.value) and not was_admitted(group):
        why = (
            f"priority set in the pod group ({priority}) must match the priority computed ({priority_class.value}) "
            "based on the priority class set in the spec"
        )
        raise AdmissionError(group, ("spec", "priority"), why)
    changed = {"priority": priority_class.value, "priority_class_name": priority_class.metadata.name}
    return replace(group, spec=replace(spec, **changed))


def admit_update(old: T, new: T) -> T:
    """Keep what admission filled in where an update leaves it out; ClusterError 422 for a change of a fixed field."""
    match old, new:
        case (PodGroup() | CompositePodGroup(), PodGroup() | CompositePodGroup()):
            group = _keep_filled(old, new)
            _check_changes(old, group)
            return cast("T", group)
        case (Workload(), Workload()):
            _check_changes(old, new)
    return new


def _check_changes(old: Group | Workload, new: Group | Workload) -> None:
    problems = [problem.with_prefix(("spec",)) for problem in group_change_problems(old, new)]
    if isinstance(new, PodGroup):
        problems += [problem.with_prefix(("status",)) for problem in group_status_problems(new)]
    if problems:
        raise api_errors.invalid_fields(type(old), old.metadata.name, problems)


def _keep_filled(old: Group, new: Group) -> Group:
    here, there = old.spec, new.spec
    kept = {
        "disruption_mode": there.disruption_mode or here.disruption_mode,
        "priority": here.priority if there.priority is None else there.priority,
        "priority_class_name": there.priority_class_name or here.priority_class_name,
    }
    return replace(new, spec=replace(there, **kept))
