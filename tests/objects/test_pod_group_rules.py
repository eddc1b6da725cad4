"""Faulty fields and forbidden changes of groups and workloads are found, in the words of Kubernetes."""

from __future__ import annotations

from typing import Any

import pytest

from kframework.objects import CompositePodGroup, PodGroup, Workload, convert, kind_of
from kframework.objects.pod_group_rules import group_change_problems, group_problems

Subject = PodGroup | CompositePodGroup | Workload

BASIC: dict[str, Any] = {"schedulingPolicy": {"basic": {}}}
GANG: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": 2}}}
GROUPS: dict[str, Any] = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}}
REFERENCE = {"workloadName": "w", "templateName": "t"}
CLAIM = {"name": "gpu", "resourceClaimName": "c"}


def group(**spec: Any) -> PodGroup:
    return convert({"metadata": {"name": "g"}, "spec": {**GANG, **spec}}, kind_of(PodGroup))


def composite(**spec: Any) -> CompositePodGroup:
    fields = {"workloadRef": REFERENCE, **GROUPS, **spec}
    return convert({"metadata": {"name": "c"}, "spec": fields}, kind_of(CompositePodGroup))


def workload(*templates: dict[str, Any], **spec: Any) -> Workload:
    lists = {"podGroupTemplates": templates} if templates else {}
    return convert({"metadata": {"name": "w"}, "spec": {**lists, **spec}}, kind_of(Workload))


def template(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, **GANG, **fields}


def tree(*names: str, **fields: Any) -> dict[str, Any]:
    """Return composite templates, each below the one before."""
    first, *rest = names
    below = {"compositePodGroupTemplates": [tree(*rest, **fields)]} if rest else {}
    return {"name": first, **GROUPS, **below, **fields}


def nested(*templates: dict[str, Any]) -> Workload:
    return workload(compositePodGroupTemplates=list(templates))


PARENT = {"parentCompositePodGroupName": "root"}
UNION = "schedulingPolicy: Invalid value: "
FAULTY: list[tuple[Subject, str]] = [
    (group(schedulingPolicy={}), f'{UNION}"": must specify one of: `basic`, `gang`'),
    (
        group(schedulingPolicy={"basic": {}, "gang": {"minCount": 1}}),
        f'{UNION}"{{basic, gang}}": must specify exactly one of: `basic`, `gang`',
    ),
    (group(schedulingPolicy={"gang": {}}), "schedulingPolicy.gang.minCount: Required value"),
    (
        group(schedulingPolicy={"gang": {"minCount": -1}}),
        "schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1",
    ),
    (
        group(schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]}),
        "schedulingConstraints.topology: Too many: 2: must have at most 1 items",
    ),
    (group(schedulingConstraints={"topology": [{}]}), "schedulingConstraints.topology[0].key: Required value"),
    (
        group(schedulingConstraints={"topology": [{"key": "a b"}]}),
        'schedulingConstraints.topology[0].key: Invalid value: "a b": name part must consist of',
    ),
    (
        group(disruptionMode={"single": {}, "all": {}}),
        'disruptionMode: Invalid value: "{single, all}": must specify exactly one of: `single`, `all`',
    ),
    (group(priority=1_000_000_001), "priority: Invalid value: 1000000001: must be less than or equal to 1000000000"),
    (group(priorityClassName="High"), 'priorityClassName: Invalid value: "High": a lowercase RFC 1123 subdomain'),
    (group(preemptionPolicy="never"), 'preemptionPolicy: Unsupported value: "never": supported values: '),
    (
        group(resourceClaims=[{**CLAIM, "name": f"c{n}"} for n in range(5)]),
        "resourceClaims: Too many: 5: must have at most 4 items",
    ),
    (group(resourceClaims=[CLAIM, CLAIM]), 'resourceClaims[1].name: Duplicate value: "gpu"'),
    (group(resourceClaims=[{"name": "gpu"}]), "resourceClaims[0]: Invalid value: "),
    (group(**PARENT), "workloadRef: Required value: must be specified when `parentCompositePodGroupName` is set"),
    (
        group(parentCompositePodGroupName="A", workloadRef=REFERENCE),
        'parentCompositePodGroupName: Invalid value: "A": a lowercase RFC 1123 subdomain',
    ),
    (group(workloadRef={"workloadName": "w"}), "workloadRef.templateName: Required value"),
    (
        group(workloadRef={"workloadName": "w", "templateName": "a.b"}),
        'workloadRef.templateName: Invalid value: "a.b": must not contain dots',
    ),
    (composite(workloadRef=None), "workloadRef: Required value"),
    (
        composite(schedulingPolicy={"gang": {"minGroupCount": 0}}),
        "schedulingPolicy.gang.minGroupCount: Required value",
    ),
    (
        workload(),
        ': Invalid value: "": must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`',
    ),
    (
        workload(template("a"), compositePodGroupTemplates=[tree("b")]),
        ': Invalid value: "{podGroupTemplates, compositePodGroupTemplates}": must specify exactly one of: ',
    ),
    (
        workload(*(template(f"t{n}") for n in range(9))),
        "podGroupTemplates: Too many: 9: must have at most 8 items",
    ),
    (workload(template("")), "podGroupTemplates[0].name: Required value"),
    (workload(template("a.b")), 'podGroupTemplates[0].name: Invalid value: "a.b": must not contain dots'),
    (workload(template("a"), template("a")), "podGroupTemplates[1]: Duplicate value: "),
    (
        workload(template("a", schedulingPolicy={})),
        "podGroupTemplates[0].schedulingPolicy: Invalid value: ",
    ),
    (
        workload(template("a"), template("b", priority=1)),
        ": Invalid value: null: detected multiple priority configurations",
    ),
    (workload(template("a"), controllerRef={"kind": "Job"}), "controllerRef.name: Required value"),
    (
        nested(tree("a", "b", "c", "d")),
        "compositePodGroupTemplates[0]: Invalid value: ",
    ),
    (
        nested(tree("a", podGroupTemplates=[template("b")]), tree("b")),
        'compositePodGroupTemplates[1].name: Duplicate value: "b"',
    ),
    (
        nested(tree("a", podGroupTemplates=[template("b", schedulingPolicy={})])),
        "compositePodGroupTemplates[0].podGroupTemplates[0].schedulingPolicy: Invalid value: ",
    ),
]


@pytest.mark.parametrize(("subject", "problem"), FAULTY)
def test_faulty_field_is_the_only_problem(subject: Subject, problem: str) -> None:
    problems = list(map(str, group_problems(subject)))
    assert len(problems) == 1 and problems[0].startswith(problem), problems


VALID: list[Subject] = [
    group(),
    group(**BASIC),
    group(workloadRef=REFERENCE, **PARENT),
    group(
        schedulingConstraints={"topology": [{"key": "topology.example.com/rack"}]},
        disruptionMode={"all": {}},
        priority=1_000_000_000,
        priorityClassName="high",
        preemptionPolicy="Never",
        resourceClaims=[CLAIM, {"name": "b", "resourceClaimTemplateName": "t"}],
    ),
    composite(),
    composite(**BASIC, **PARENT),
    workload(*(template(f"t{n}", priority=1) for n in range(8))),
    nested(tree("a", "b", "c")),
    nested(tree("a", podGroupTemplates=[template("b"), template("c", **BASIC)])),
]


@pytest.mark.parametrize("subject", VALID)
def test_valid_group_has_no_problem(subject: Subject) -> None:
    assert list(group_problems(subject)) == []


IMMUTABLE = "Invalid value: null: field is immutable"
CHANGES: list[tuple[Subject, Subject, list[str]]] = [
    (group(), group(schedulingPolicy={"gang": {"minCount": 5}}), []),
    (
        group(),
        group(**BASIC),
        [
            f"schedulingPolicy.basic: {IMMUTABLE}",
            "schedulingPolicy.gang: Invalid value: null: field cannot be cleared once set",
        ],
    ),
    (
        group(**BASIC),
        group(),
        [
            f"schedulingPolicy.basic: {IMMUTABLE}",
            "schedulingPolicy.gang: Invalid value: null: field cannot be set once created",
        ],
    ),
    (
        group(workloadRef=REFERENCE),
        group(workloadRef={**REFERENCE, "templateName": "u"}, **PARENT),
        [f"parentCompositePodGroupName: {IMMUTABLE}", f"workloadRef: {IMMUTABLE}"],
    ),
    (
        group(),
        group(
            schedulingConstraints={"topology": [{"key": "rack"}]},
            resourceClaims=[CLAIM],
            disruptionMode={"all": {}},
            priorityClassName="high",
            priority=1,
            preemptionPolicy="Never",
        ),
        [
            f"{field}: {IMMUTABLE}"
            for field in (
                *("schedulingConstraints", "resourceClaims", "disruptionMode"),
                *("priorityClassName", "priority", "preemptionPolicy"),
            )
        ],
    ),
    (
        composite(),
        composite(schedulingPolicy={"gang": {"minGroupCount": 3}}),
        [f"schedulingPolicy.gang.minGroupCount: {IMMUTABLE}"],
    ),
    (workload(template("a")), workload(template("a", schedulingPolicy={"gang": {"minCount": 9}})), []),
    (
        workload(template("a"), template("b")),
        workload(template("a"), template("c")),
        [
            "podGroupTemplates[1]: Forbidden: item may not be added",
            "podGroupTemplates: Forbidden: item may not be removed",
        ],
    ),
    (
        workload(template("a")),
        workload(template("a", priority=1), controllerRef={"kind": "Job", "name": "j"}),
        [f"controllerRef: {IMMUTABLE}", f"podGroupTemplates[0].priority: {IMMUTABLE}"],
    ),
    (
        nested(tree("a", podGroupTemplates=[template("b")])),
        nested(tree("a", podGroupTemplates=[template("b", **BASIC)])),
        [
            f"compositePodGroupTemplates[0].podGroupTemplates[0].schedulingPolicy.{problem}"
            for problem in (f"basic: {IMMUTABLE}", "gang: Invalid value: null: field cannot be cleared once set")
        ],
    ),
]


@pytest.mark.parametrize(("old", "new", "problems"), CHANGES)
def test_forbidden_changes_are_found(old: Subject, new: Subject, problems: list[str]) -> None:
    assert list(map(str, group_change_problems(old, new))) == problems


@pytest.mark.parametrize("subject", VALID)
def test_unchanged_group_may_stay(subject: Subject) -> None:
    assert list(group_change_problems(subject, subject)) == []
