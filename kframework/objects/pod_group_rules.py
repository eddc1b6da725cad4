"""Rules for groups of pods and for workloads, and for their changes, in the words of Kubernetes' validation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import to_builtins

from kframework.objects.pod import PodResourceClaim
from kframework.objects.pod_groups import (
    CompositePodGroup,
    CompositePodGroupSchedulingPolicy,
    CompositePodGroupSpec,
    CompositePodGroupTemplate,
    PodGroup,
    PodGroupSpec,
    PodGroupTemplate,
    Workload,
    WorkloadTemplates,
)
from kframework.objects.problem import FieldPath, Problem, duplicate, forbidden, invalid, required
from kframework.objects.scheduling_rules import PREEMPTION_POLICIES, choice, claim_problems, prefix_paths
from kframework.objects.syntax import Messages, dns_label, dns_subdomain, qualified_name

#: The longest lists of templates, constraints and claims, and the deepest tree of templates.
_MAX_TEMPLATES, _MAX_CONSTRAINTS, _MAX_CLAIMS, _MAX_DEPTH = 8, 1, 4, 4
_HIGHEST_PRIORITY = 1_000_000_000

Problems = Iterator[Problem]
Grouped = PodGroup | CompositePodGroup | Workload
_Scheduled = PodGroupSpec | CompositePodGroupSpec | PodGroupTemplate | CompositePodGroupTemplate
_Template = PodGroupTemplate | CompositePodGroupTemplate


def group_problems(subject: Grouped) -> Problems:
    """Yield the problems of a group or a workload; paths begin below `spec`."""
    match subject:
        case Workload(spec=workload):
            yield from _workload_problems(workload)
        case PodGroup(spec=spec) | CompositePodGroup(spec=spec):
            yield from _scheduled_problems(spec)
            parent, reference = spec.parent_composite_pod_group_name, spec.workload_ref
            if parent is not None:
                yield from (invalid(("parentCompositePodGroupName",), parent, each) for each in dns_subdomain(parent))
            if reference is not None:
                path = ("workloadRef",)
                yield from _name_problems((*path, "workloadName"), reference.workload_name, dns_subdomain)
                yield from _name_problems((*path, "templateName"), reference.template_name, dns_label)
            elif isinstance(spec, CompositePodGroupSpec):
                yield required(("workloadRef",))
            elif parent is not None:
                yield required(("workloadRef",), "must be specified when `parentCompositePodGroupName` is set")


def _scheduled_problems(spec: _Scheduled) -> Problems:
    policy, mode = spec.scheduling_policy, spec.disruption_mode
    yield from _union_problems(("schedulingPolicy",), basic=policy.basic, gang=policy.gang)
    for field, count in _minimum(spec).items():
        location = ("schedulingPolicy", "gang", field)
        if not count:
            yield required(location)
        elif count < 1:
            yield invalid(location, count, "must be greater than or equal to 1")
    if spec.scheduling_constraints is not None:
        topology, path = spec.scheduling_constraints.topology, ("schedulingConstraints", "topology")
        yield from _too_many(path, topology, _MAX_CONSTRAINTS)
        for index, constraint in enumerate(topology):
            yield from _name_problems((*path, index, "key"), constraint.key, qualified_name)
    if mode is not None:
        yield from _union_problems(("disruptionMode",), single=mode.single, all=mode.all)
    if spec.priority_class_name:
        name = spec.priority_class_name
        yield from (invalid(("priorityClassName",), name, each) for each in dns_subdomain(name))
    if spec.priority is not None and spec.priority > _HIGHEST_PRIORITY:
        yield invalid(("priority",), spec.priority, f"must be less than or equal to {_HIGHEST_PRIORITY}")
    if spec.preemption_policy is not None:
        yield from choice(("preemptionPolicy",), spec.preemption_policy, PREEMPTION_POLICIES)
    claims = _claims(spec)
    yield from _too_many(("resourceClaims",), claims, _MAX_CLAIMS)
    yield from prefix_paths(("resourceClaims",), claim_problems(claims))


def _minimum(spec: _Scheduled) -> Mapping[str, int]:
    """Return the count of a gang by its field."""
    match spec:
        case PodGroupSpec() | PodGroupTemplate():
            gang = spec.scheduling_policy.gang
            return {} if gang is None else {"minCount": gang.min_count}
        case _:
            of_groups = spec.scheduling_policy.gang
            return {} if of_groups is None else {"minGroupCount": of_groups.min_group_count}


def _claims(spec: _Scheduled) -> Sequence[PodResourceClaim]:
    return spec.resource_claims if isinstance(spec, PodGroupSpec | PodGroupTemplate) else ()


def _workload_problems(spec: WorkloadTemplates) -> Problems:
    groups, composites = spec.pod_group_templates, spec.composite_pod_group_templates
    yield from _union_problems((), podGroupTemplates=groups or None, compositePodGroupTemplates=composites or None)
    if (controller := spec.controller_ref) is not None:
        for field, name in (("kind", controller.kind), ("name", controller.name)):
            if not name:
                yield required(("controllerRef", field))
    yield from _templates_problems(("podGroupTemplates",), groups)
    yield from _templates_problems(("compositePodGroupTemplates",), composites)
    for index, composite in enumerate(composites):
        if _depth(composite) > _MAX_DEPTH:
            below = to_builtins(composite.composite_pod_group_templates)
            location = ("compositePodGroupTemplates", index)
            yield invalid(location, below, f"maximum template hierarchy depth is {_MAX_DEPTH}")
    names = set[str]()
    for path, template in _tree(composites):
        if template.name in names:
            yield duplicate((*path, "name"), template.name)
        names.add(template.name)
    every = [*groups, *(template for _, template in _tree(composites))]
    if len({(template.priority_class_name, template.priority) for template in every}) > 1:
        yield invalid((), None, "detected multiple priority configurations")


def _templates_problems(path: FieldPath, templates: Sequence[_Template]) -> Problems:
    yield from _too_many(path, templates, _MAX_TEMPLATES)
    names = [template.name for template in templates]
    for index, template in enumerate(templates):
        if path == ("podGroupTemplates",) and template.name in names[:index]:
            yield duplicate((*path, index), to_builtins(template))
        yield from _name_problems((*path, index, "name"), template.name, dns_label)
        yield from prefix_paths((*path, index), _scheduled_problems(template))
        if isinstance(template, CompositePodGroupTemplate):
            below = (*path, index)
            yield from _templates_problems((*below, "podGroupTemplates"), template.pod_group_templates)
            yield from _templates_problems(
                (*below, "compositePodGroupTemplates"), template.composite_pod_group_templates
            )


def _depth(template: CompositePodGroupTemplate) -> int:
    """Return the number of levels of a tree, with one for the groups of pods."""
    return 1 + max(map(_depth, template.composite_pod_group_templates), default=1)


def _tree(
    composites: Sequence[CompositePodGroupTemplate], below: FieldPath = ()
) -> Iterator[tuple[FieldPath, _Template]]:
    """Yield composite templates and all below them, with their paths."""
    for index, composite in enumerate(composites):
        path = (*below, "compositePodGroupTemplates", index)
        yield path, composite
        yield from _tree(composite.composite_pod_group_templates, path)
        for number, template in enumerate(composite.pod_group_templates):
            yield (*path, "podGroupTemplates", number), template


def _union_problems(path: FieldPath, **choices: object) -> Problems:
    chosen, known = (
        [name for name, value in choices.items() if value is not None],
        ", ".join(f"`{name}`" for name in choices),
    )
    if not chosen:
        yield invalid(path, "", f"must specify one of: {known}")
    elif len(chosen) > 1:
        yield invalid(path, f"{{{', '.join(chosen)}}}", f"must specify exactly one of: {known}")


def _name_problems(path: FieldPath, name: str, syntax: Callable[[str], Messages]) -> Problems:
    if name:
        yield from (invalid(path, name, each) for each in syntax(name))
    else:
        yield required(path)


def _too_many(path: FieldPath, values: Sequence[object], most: int) -> Problems:
    if len(values) > most:
        yield Problem(path, f"Too many: {len(values)}: must have at most {most} items")


def group_status_problems(group: PodGroup) -> Problems:
    """Yield the problems of the status of a group; paths begin below `status`."""
    names = {each.name for each in group.spec.resource_claims}
    for index, status in enumerate(group.status.resource_claim_statuses):
        if status.name not in names:
            path = ("resourceClaimStatuses", index, "name")
            yield invalid(path, status.name, "must match the name of an entry in `spec.resourceClaims`")


# --- changes ----------------------------------------------------------------------------------------------------------


def group_change_problems(old: Grouped, new: Grouped) -> Problems:
    """Yield forbidden changes of a group or a workload; paths begin below `spec`."""
    match old, new:
        case Workload(spec=before), Workload(spec=after):
            if before.controller_ref != after.controller_ref:
                yield _immutable(("controllerRef",))
            yield from _templates_changes(("podGroupTemplates",), before.pod_group_templates, after.pod_group_templates)
            yield from _templates_changes(
                ("compositePodGroupTemplates",),
                before.composite_pod_group_templates,
                after.composite_pod_group_templates,
            )
        case PodGroup() | CompositePodGroup(), PodGroup() | CompositePodGroup():
            here, there = old.spec, new.spec
            if here.parent_composite_pod_group_name != there.parent_composite_pod_group_name:
                yield _immutable(("parentCompositePodGroupName",))
            if here.workload_ref != there.workload_ref:
                yield _immutable(("workloadRef",))
            yield from _scheduled_changes(here, there)


def _scheduled_changes(old: _Scheduled, new: _Scheduled) -> Problems:
    before, after, path = old.scheduling_policy, new.scheduling_policy, ("schedulingPolicy",)
    if before.basic != after.basic:
        yield _immutable((*path, "basic"))
    if before.gang is None and after.gang is not None:
        yield invalid((*path, "gang"), None, "field cannot be set once created")
    elif before.gang is not None and after.gang is None:
        yield invalid((*path, "gang"), None, "field cannot be cleared once set")
    elif before.gang != after.gang and isinstance(after, CompositePodGroupSchedulingPolicy):
        yield _immutable((*path, "gang", "minGroupCount"))
    for field, was, now in (
        ("schedulingConstraints", old.scheduling_constraints, new.scheduling_constraints),
        ("resourceClaims", _claims(old), _claims(new)),
        ("disruptionMode", old.disruption_mode, new.disruption_mode),
        ("priorityClassName", old.priority_class_name, new.priority_class_name),
        ("priority", old.priority, new.priority),
        ("preemptionPolicy", old.preemption_policy, new.preemption_policy),
    ):
        if was != now:
            yield _immutable((field,))


def _templates_changes(path: FieldPath, old: Sequence[_Template], new: Sequence[_Template]) -> Problems:
    before, after = ({template.name: template for template in templates} for templates in (old, new))
    for index, template in enumerate(new):
        if template.name not in before:
            yield forbidden((*path, index), "item may not be added")
            continue
        was, below = before[template.name], (*path, index)
        yield from prefix_paths(below, _scheduled_changes(was, template))
        if isinstance(was, CompositePodGroupTemplate) and isinstance(template, CompositePodGroupTemplate):
            lists = (
                ("podGroupTemplates", was.pod_group_templates, template.pod_group_templates),
                (
                    "compositePodGroupTemplates",
                    was.composite_pod_group_templates,
                    template.composite_pod_group_templates,
                ),
            )
            for field, here, there in lists:
                yield from _templates_changes((*below, field), here, there)
    yield from (forbidden(path, "item may not be removed") for name in before if name not in after)


def _immutable(path: FieldPath) -> Problem:
    return invalid(path, None, "field is immutable")
