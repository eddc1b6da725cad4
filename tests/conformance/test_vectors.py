"""What kube-scheduler was recorded to answer, replayed under both minors: no compared field differs."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from kframework.core.runtime.registry import Registry
from kframework.objects.problem import format_path
from kframework.testing.conformance.cases import Case, read, with_texts_of_1_37
from kframework.testing.conformance.replay import replay
from tests.support.scale import EXAMPLES, ONE_IN

VECTORS = Path(__file__).parent / "vectors"

#: The suites, with the number of their cases.
SUITES = {
    "dra_allocation_137": 375,
    "dynamic_resources": 686,
    "dynamic_resources_cel": 316,
    "dynamic_resources_sequence": 60,
    "image_locality": 150,
    "inter_pod_affinity": 250,
    "mixed": 400,
    "node_affinity": 220,
    "node_name": 60,
    "node_ports": 160,
    "node_resources_balanced_allocation": 160,
    "node_resources_fit": 220,
    "node_unschedulable": 90,
    "node_volume_limits": 130,
    "node_volume_limits_scaling": 203,
    "pod_groups": 554,
    "pod_requests_resize": 270,
    "pod_topology_spread": 250,
    "preemption": 260,
    "profile_config": 150,
    "quantities": 240,
    "resources": 300,
    "scheduling_gates": 50,
    "selectors": 278,
    "sequence": 60,
    "taint_toleration": 180,
    "volume_binding": 180,
    "volume_binding_scoring": 260,
    "volume_restrictions": 130,
    "volume_zone": 110,
}


#: What takes 7 to 25 s of a core; `make check` replays it.
LONG = {"dynamic_resources", "mixed", "pod_topology_spread", "preemption", "sequence"}


#: The cases have been replayed as those of 1.36: the other gates are tried on some, and on all by `make long`.
STEP = ONE_IN if EXAMPLES == 25 else 1

SUITES_WITH_MARKS = [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in sorted(SUITES)]


@pytest.mark.parametrize("suite", SUITES_WITH_MARKS)
def test_answers_equal_those_of_kube_scheduler(suite: str) -> None:
    cases = list(read(str(VECTORS / f"{suite}.jsonl.gz")))
    assert len(cases) == SUITES[suite]
    problems = [problem for case in cases for minor in case.minors() for problem in differences(case.of_minor(minor))]
    assert not problems, "\n" + "\n".join(problems[:20])


#: Groups are replayed as those of 1.37 above.
AS_1_37 = [suite for suite in SUITES_WITH_MARKS if suite.values[0] not in ("dynamic_resources", "pod_groups")]


@pytest.mark.parametrize("suite", AS_1_37)
def test_answers_of_1_36_with_the_texts_of_1_37_equal_those_of_1_37(suite: str) -> None:
    cases = [case for case in read(str(VECTORS / f"{suite}.jsonl.gz")) if case.expect136 is None][::STEP]
    problems = [problem for case in map(in_1_37, cases) if case is not None for problem in differences(case)]
    assert not problems, "\n" + "\n".join(problems[:20])


def in_1_37(case: Case) -> Case | None:
    """Return the case as one of 1.37; None if that decides otherwise: image volumes, resizes, lists of attributes."""
    pod = cast("dict[str, Any]", case.input.get("pod", {}))
    if any("image" in volume for volume in pod.get("spec", {}).get("volumes", ())):
        return None
    if case.kind == "resources" and pod.get("status", {}).keys() & {"containerStatuses", "initContainerStatuses"}:
        return None
    if case.kind == "cel" and "unsupported attribute value" in str(case.expect.get("error")):
        return None
    gates = {**cast("dict[str, bool]", case.input.get("featureGates", {})), "StorageCapacityScoring": False}
    expect = with_texts_of_1_37(case.expect) if case.kind in ("single", "preemption") else case.expect
    inputs = {**case.input, "featureGates": gates, "emulatedVersion": "1.37"}
    return msgspec.structs.replace(case, input=inputs, expect=expect)


@cache
def installed() -> Registry:
    return Registry.from_installed()


def differences(case: Case) -> list[str]:
    """List what differs in a case; something must be compared, or it must be said why not."""
    comparison = replay(case, installed())
    assert comparison.facts or comparison.uncompared, f"{case.id}: nothing was compared, and no reason is given"
    return [
        f"{case.id}: {format_path(fact.path)}: expected {fact.expected}, got {fact.got}"
        for fact in comparison.differences
    ]


#: The groups that 1.37 places otherwise since its members see the affinity terms of each other.
SEEING_AFFINITY = {"pod_groups-A-0003-affinity", "pod_groups-A-0304-affinity", "pod_groups-A-0524-affinity"}


def test_groups_are_compared_where_1_37_must_decide_alike() -> None:
    cases = [case.of_minor("1.37") for case in read(str(VECTORS / "pod_groups.jsonl.gz"))]
    comparisons = [replay(case, installed()) for case in cases]
    assert sum(bool(each.facts) for each in comparisons) == 547
    assert sum(any(fact.path[0] == "members" for fact in each.facts) for each in comparisons) == 306
    reasons = Counter((uncompared.part, uncompared.reason) for each in comparisons for uncompared in each.uncompared)
    assert reasons == {
        ("answers", "1.37 schedules no pod whose group does not exist"): 7,
        ("members", "members differ in priority"): 175,
        ("members", "members differ in scheduler name"): 15,
        ("members", "members differ in preemption policy"): 11,
        ("members", "1.37 preempts for the whole group, and not in the walk"): 18,
        ("members", "1.37 holds a group back with each of its pods"): 2,
        ("members", "1.36 does not see the affinity of members that it placed before"): 3,
        ("members", "1.36 does not keep the rooms of nominated members from each other"): 1,
    }
    by_affinity = {each.case for each in comparisons if any("affinity" in part.reason for part in each.uncompared)}
    assert by_affinity == SEEING_AFFINITY


def test_every_suite_is_replayed() -> None:
    assert {path.name.removesuffix(".jsonl.gz") for path in VECTORS.glob("*.gz")} == SUITES.keys()
