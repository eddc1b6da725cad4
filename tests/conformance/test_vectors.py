"""What kube-scheduler v1.36.2 was recorded to answer, replayed: no compared field differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from kframework.core.runtime.registry import Registry
from kframework.objects.problem import format_path
from kframework.testing.conformance.cases import read
from kframework.testing.conformance.replay import replay

VECTORS = Path(__file__).parent / "vectors"

#: The suites, with the number of their cases.
SUITES = {
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
    "volume_restrictions": 130,
    "volume_zone": 110,
}


#: What takes 7 to 25 s of a core; `make check` replays it.
LONG = {"dynamic_resources", "mixed", "pod_topology_spread", "preemption", "sequence"}


@pytest.mark.parametrize(
    "suite", [pytest.param(suite, marks=pytest.mark.slow if suite in LONG else ()) for suite in sorted(SUITES)]
)
def test_answers_equal_those_of_kube_scheduler(suite: str) -> None:
    registry = Registry.from_installed()
    cases = list(read(str(VECTORS / f"{suite}.jsonl.gz")))
    assert len(cases) == SUITES[suite]
    problems = []
    for case in cases:
        comparison = replay(case, registry)
        assert comparison.facts or comparison.uncompared, f"{case.id}: nothing was compared, and nobody says why"
        problems += [
            f"{case.id}: {format_path(fact.path)}: expected {fact.expected}, got {fact.got}"
            for fact in comparison.differences
        ]
    assert not problems, "\n" + "\n".join(problems[:20])


def test_every_suite_is_replayed() -> None:
    assert {path.name.removesuffix(".jsonl.gz") for path in VECTORS.glob("*.gz")} == SUITES.keys()
