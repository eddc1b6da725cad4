"""binpack: the formula, row by row and in columns."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kframework_batch.config import parse
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.plugins.binpack import Binpack, BinpackArguments
from kframework_batch.program import compile_program
from kframework_batch.session import Session
from kframework_batch.task_status import TaskStatus
from kframework_batch.testing import Stage, make_gang

from kframework.errors import ConfigError
from kframework.state.cluster import ClusterState
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PodInfo
from kframework.testing import make_node, make_pod

GPU, OTHER = "nvidia.com/gpu", "example.com/other"


def plugin(**arguments: object) -> Binpack:
    return Binpack(BinpackArguments.model_validate({f"binpack.{key}": value for key, value in arguments.items()}))


def task(**requests: int) -> TaskInfo:
    amounts = {GPU if name == "gpu" else name: amount for name, amount in requests.items()}
    pod = make_pod("a", cpu=None, memory=None, requests=amounts)
    return TaskInfo(JobInfo("default", "a"), PodInfo(pod, TemplateInterner()), pod, TaskStatus.PENDING)


def cluster(nodes: Mapping[str, tuple[Mapping[str, int], Mapping[str, int]]]) -> ClusterState:
    """Make nodes that offer this much, and pods that take this much of it."""
    state = ClusterState()
    for name, (offered, used) in nodes.items():
        state.put_node(make_node(name, cpu=None, memory=None, allocatable=offered))
        state.put_pod(make_pod(f"on-{name}", cpu=None, memory=None, requests=used, node_name=name))
    return state


def score(asked: Binpack, wanted: TaskInfo, state: ClusterState) -> list[float]:
    """Score all nodes, in both forms."""
    session = cast("Session", SimpleNamespace(nodes=state.nodes))
    rows = state.nodes.order
    columns = asked.node_order_nodes(session, wanted, rows)
    assert columns.tolist() == [asked.node_order(session, wanted, state.nodes[row]) for row in rows.tolist()]
    return cast("list[float]", columns.tolist())


OFFERED = {"cpu": 10, "memory": 1000, GPU: 8}


@pytest.mark.parametrize(
    ("arguments", "requests", "used", "expected"),
    [
        pytest.param({}, {"cpu": 2}, {"cpu": 3}, 50.0, id="one resource"),
        pytest.param({}, {"cpu": 2, "memory": 900}, {"cpu": 3, "memory": 100}, 75.0, id="the mean of two"),
        pytest.param({"cpu": 3}, {"cpu": 2, "memory": 900}, {"cpu": 3, "memory": 100}, 62.5, id="weighted"),
        pytest.param({"weight": 10}, {"cpu": 2}, {"cpu": 3}, 500.0, id="weight of the plugin"),
        pytest.param({"weight": 0}, {"cpu": 2}, {"cpu": 3}, 0.0, id="no weight"),
        pytest.param({}, {"cpu": 2, "gpu": 8}, {"cpu": 3}, 50.0, id="not listed"),
        pytest.param({"resources": GPU}, {"cpu": 2, "gpu": 8}, {"cpu": 3}, 75.0, id="listed"),
        pytest.param(
            {"resources": "x , " + GPU, f"resources.{GPU}": 3}, {"cpu": 2, "gpu": 8}, {"cpu": 3}, 87.5, id="own"
        ),
        pytest.param({"cpu": 0, "memory": 0, "resources": GPU}, {"cpu": 2, "gpu": 4}, {"cpu": 9}, 50.0, id="cpu 0"),
        pytest.param({"cpu": -5}, {"cpu": 2, "memory": 900}, {"cpu": 3, "memory": 100}, 75.0, id="below 0 is 1"),
        pytest.param({"weight": "2", "cpu": "3"}, {"cpu": 2}, {"cpu": 3}, 100.0, id="numbers as text"),
        pytest.param({}, {"cpu": 8}, {"cpu": 3}, 0.0, id="too full"),
        pytest.param({}, {"cpu": 7}, {"cpu": 3}, 100.0, id="exactly full"),
        pytest.param({"resources": OTHER}, {"cpu": 2, OTHER: 1}, {"cpu": 3}, 25.0, id="what the node does not offer"),
        pytest.param({}, {}, {"cpu": 3}, 0.0, id="best effort"),
    ],
)
def test_score_of_a_node_is_its_weighted_use(
    arguments: Mapping[str, object], requests: Mapping[str, int], used: Mapping[str, int], expected: float
) -> None:
    assert score(plugin(**arguments), task(**requests), cluster({"n1": (OFFERED, used)})) == [expected]


amounts = st.fixed_dictionaries({name: st.integers(0, 40) for name in ("cpu", "memory", GPU)})
weights = st.integers(-1, 5)


@given(
    st.lists(st.tuples(amounts, amounts), min_size=1, max_size=5),
    amounts,
    st.fixed_dictionaries(
        {"weight": st.integers(0, 3), "cpu": weights, "memory": weights, f"resources.{GPU}": weights}
    ),
    st.booleans(),
)
def test_scores_of_columns_and_rows_agree_with_the_formula(
    nodes: list[tuple[dict[str, int], dict[str, int]]],
    wanted: dict[str, int],
    arguments: dict[str, int],
    listed: bool,
) -> None:
    asked = plugin(**arguments, resources=GPU if listed else "")
    scores = score(
        asked,
        task(**{name.rpartition("/")[2]: amount for name, amount in wanted.items()}),
        cluster({f"n{n}": each for n, each in enumerate(nodes)}),
    )
    per_resource = {"cpu": arguments["cpu"], "memory": arguments["memory"]}
    if listed:
        per_resource[GPU] = arguments[f"resources.{GPU}"]
    of = {name: 1 if weight < 0 else weight for name, weight in per_resource.items()}
    for place, (offered, used) in enumerate(nodes):
        assert scores[place] == pytest.approx(float(formula(offered, used, wanted, of)) * arguments["weight"])


def formula(
    offered: Mapping[str, int], used: Mapping[str, int], wanted: Mapping[str, int], of: Mapping[str, int]
) -> Fraction:
    """The mean of (used + wanted) / offered over what is wanted and weighed, of 100; 0 where anything is too much."""
    asked = [name for name in wanted if wanted[name] and name in of]
    if any(of[name] and offered[name] and used[name] + wanted[name] > offered[name] for name in asked):
        return Fraction(0)
    parts = [of[name] * Fraction(used[name] + wanted[name], offered[name]) for name in asked if offered[name]]
    total = sum(of[name] for name in asked)
    return 100 * sum(parts, start=Fraction(0)) / total if total else Fraction(0)


def test_only_the_request_is_signed() -> None:
    session = cast("Session", None)
    first, second = (plugin().sign(session, task(cpu=1)) for _ in range(2))
    assert first == second != plugin().sign(session, task(cpu=2))
    assert plugin().sign(session, task()) is not None


WEIGHTED = f"""
actions: allocate
tiers:
- plugins:
  - name: binpack
    arguments: {{{{binpack.resources: {GPU}, binpack.resources.{GPU}: {{weight}}}}}}
"""


def test_weights_of_listed_resources_are_known_arguments() -> None:
    program = compile_program(parse(WEIGHTED.format(weight=2)))
    assert program.notices == ()
    (made,) = program.tiers.plugins
    assert isinstance(made, Binpack)
    assert made.arguments.weights == {GPU: 2, "cpu": 1, "memory": 1}


def test_invalid_weight_is_rejected() -> None:
    with pytest.raises(ConfigError, match=f"binpack.resources.{GPU}: expected a whole number, not 'much'"):
        compile_program(parse(WEIGHTED.format(weight="much")))


def test_nodes_are_filled_one_after_another() -> None:
    configuration = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n  - name: binpack\n"
    nodes = [make_node(f"n{n}", cpu=4) for n in range(3)]
    stage = Stage(configuration, nodes=nodes, gangs=[make_gang("a", 8)]).session()
    assert sorted(np.unique(list(stage.bound.values()), return_counts=True)[1].tolist()) == [4, 4]
