"""GpuPacking, asked as the scheduler asks it, and compared with its rules written slowly."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kframework_gpu_packing import GpuPacking

from kframework import ConfigError
from kframework.objects import Node, Pod
from kframework.testing import PluginContract, Scenario, check_plugin, make_node, make_pod

GPU = "nvidia.com/gpu"

#: Nothing scores but GpuPacking, so that totals are its own.
ALONE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    plugins:
      score: {{enabled: [{{name: GpuPacking, weight: 1}}], disabled: [{{name: "*"}}]}}
      preScore: {{disabled: [{{name: "*"}}]}}
    pluginConfig:
      - name: GpuPacking
        args: {args}
"""


def gpu_pod(name: str, gpus: int, node: str = "") -> Pod:
    return make_pod(name, cpu="10m", memory="1Mi", requests={GPU: gpus} if gpus else {}, node_name=node)


def cluster(taken: Mapping[str, tuple[int, ...]], offered: int = 8) -> tuple[list[Node], list[Pod]]:
    """Make a node of 8 GPUs for each name, and its pods with these numbers of GPUs."""
    nodes = [make_node(name, cpu=64, allocatable={GPU: offered} if offered else {}) for name in taken]
    pods = [gpu_pod(f"{name}-{i}", gpus, name) for name, held in taken.items() for i, gpus in enumerate(held)]
    return nodes, pods


def chosen(nodes: list[Node], pods: list[Pod], pod: Pod, args: str = "{}") -> set[str]:
    """Return the nodes with the best score, of three at most that the scheduler tells of."""
    result = Scenario(nodes=nodes, pods=[*pods, pod], plugins=[GpuPacking], config=ALONE.format(args=args)).run()
    (decision,) = result.decisions_on(pod.metadata.name)
    return {name for name, score in decision.best_nodes if score == decision.best_nodes[0][1]}


@pytest.mark.parametrize(
    ("gpus", "taken", "best"),
    [
        (1, {"whole": (), "last": (7,), "half": (4,)}, "last"),
        (2, {"whole": (), "pair": (6,), "half": (4,)}, "pair"),
        (4, {"whole": (), "six": (2,), "half": (4,)}, "half"),
        (1, {"pair": (6,), "three": (5,)}, "three"),  # the pair stays whole
        (2, {"three": (5,), "four": (4,)}, "three"),  # so does the four
        (1, {"five": (3,), "four": (4,)}, "five"),
    ],
)
def test_room_for_large_pods_stays_whole(gpus: int, taken: dict[str, tuple[int, ...]], best: str) -> None:
    assert chosen(*cluster(taken), gpu_pod("new", gpus)) == {best}


def test_node_with_more_pods_is_preferred_among_equals() -> None:
    nodes, pods = cluster({"soon-empty": (4,), "busy": (1, 1, 2)})
    assert chosen(nodes, pods, gpu_pod("new", 4)) == {"busy"}


def test_node_with_fewer_gpus_left_is_preferred_among_equals() -> None:
    nodes, pods = cluster({"three": (2, 3), "one": (3, 4)})  # 3 and 1 are free: either way nothing is lost
    assert chosen(nodes, pods, gpu_pod("new", 1)) == {"one"}


@pytest.mark.parametrize(("plugins", "used"), [([GpuPacking], 1), ([], 2)])
def test_single_last_gpus_on_two_nodes_are_avoided(plugins: list[type[GpuPacking]], used: int) -> None:
    """Of 16 GPUs 8 are free, and no node has 8 for the last pod: the default plugins spread those before it."""
    nodes, _ = cluster({"a": (), "b": ()})
    pods = [*(make_pod(f"small-{i}", cpu=4, requests={GPU: 1}) for i in range(8)), gpu_pod("large", 8)]
    result = Scenario(nodes=nodes, pods=pods, plugins=plugins, weights={"GpuPacking": 10}).run()
    assert len({result.node_of(f"small-{i}") for i in range(8)}) == used
    assert (result.node_of("large") is None) is (used == 2)


def test_typical_pods_determine_the_value_of_room() -> None:
    nodes, pods = cluster({"three": (5,), "five": (3,)})
    assert chosen(nodes, pods, gpu_pod("new", 2)) == {"three"}
    threes = "{typicalPods: [{gpus: 3}]}"
    assert chosen(nodes, pods, gpu_pod("new", 2), threes) == {"five"}  # leaves three


def test_resource_name_can_be_configured() -> None:
    nodes = [make_node("a", allocatable={"amd.com/gpu": 8}), make_node("b", allocatable={"amd.com/gpu": 8})]
    held = make_pod("held", requests={"amd.com/gpu": 7}, node_name="b")
    new = make_pod("new", requests={"amd.com/gpu": 1})
    assert chosen(nodes, [held], new, "{resource: amd.com/gpu}") == {"b"}


@pytest.mark.parametrize(
    "args",
    [
        {"typicalPods": []},
        {"typicalPods": [{"gpus": 0}]},
        {"typicalPods": [{"gpus": 1, "share": 0}]},
        {"resource": ""},
        {"resources": "nvidia.com/gpu"},
    ],
)
def test_invalid_args_are_rejected(args: Mapping[str, object]) -> None:
    with pytest.raises(ConfigError):
        Scenario(plugins=[GpuPacking], args={"GpuPacking": args}).run()


def test_pods_without_gpus_avoid_gpu_nodes() -> None:
    nodes = [*cluster({"gpu": ()})[0], make_node("plain-1"), make_node("plain-2")]
    assert chosen(nodes, [], gpu_pod("new", 0)) == {"plain-1", "plain-2"}


def test_pods_without_gpus_use_gpu_nodes_when_no_other_node_fits() -> None:
    nodes = [*cluster({"gpu": ()})[0], make_node("plain", unschedulable=True)]
    result = Scenario(nodes=nodes, pods=[gpu_pod("new", 0)], plugins=[GpuPacking]).run()
    assert result.node_of("new") == "gpu"


def test_pods_without_gpus_score_nodes_of_one_kind_alike() -> None:
    assert chosen(*cluster({"a": (1,), "b": ()}), gpu_pod("new", 0)) == {"a", "b"}


# -- the rules, slowly -----------------------------------------------------------------------------------------------


@given(
    held=st.lists(st.lists(st.sampled_from([1, 2, 4]), max_size=3), min_size=2, max_size=14),
    requested=st.integers(0, 8),
    typical=st.lists(st.tuples(st.integers(1, 8), st.integers(1, 9)), min_size=1, max_size=4),
)
def test_best_node_equals_that_of_the_slow_rules(
    held: list[list[int]], requested: int, typical: list[tuple[int, int]]
) -> None:
    nodes, pods = cluster({f"n{place}": tuple(each) for place, each in enumerate(held)}, offered=12)
    new = gpu_pod("new", requested)
    written = ", ".join(f"{{gpus: {gpus}, share: {share}}}" for gpus, share in typical)
    config = ALONE.format(args=f"{{typicalPods: [{written}]}}")
    result = Scenario(nodes=nodes, pods=[*pods, new], plugins=[GpuPacking], config=config).run()
    (decision,) = result.decisions_on("new")
    fitting = [each for each in held if 12 - sum(each) >= requested]
    ranked = [slowly(each, requested, typical) for each in fitting]
    if decision.feasible > 1:
        assert decision.ties == ranked.count(max(ranked))
    if decision.node:
        assert slowly(held[int(decision.node[1:])], requested, typical) == max(ranked)


def slowly(held: list[int], requested: int, typical: list[tuple[int, int]]) -> tuple[int, int, int]:
    """Say how good a node of 12 GPUs is: the larger the better."""
    if not requested:
        return (0, 0, 0)
    free = 12 - sum(held)
    growth = unusable(free - requested, typical) - unusable(free, typical)
    return (-growth, len(held), requested - free)


def unusable(free: int, typical: list[tuple[int, int]]) -> int:
    total = 0
    for gpus, share in typical:
        rest = free
        while rest >= gpus:
            rest -= gpus
        total += share * rest
    return total


class TestContractWithoutGpus(PluginContract):
    plugin = GpuPacking
    examples = 4
    nodes = [make_node("gpus", allocatable={"example.com/gpu": 4})]
    pods = [make_pod(f"wants-{gpus}", requests={"example.com/gpu": gpus}) for gpus in (1, 2)]


class TestContract(TestContractWithoutGpus):
    args = {"resource": "example.com/gpu"}


@pytest.mark.slow
@pytest.mark.parametrize("tests", [TestContractWithoutGpus, TestContract])
def test_contract_is_checked_with_differing_nodes_and_pods(tests: type[PluginContract]) -> None:
    args = tests.args
    reached = check_plugin(GpuPacking, args=args, pods=tests.pods, nodes=tests.nodes)
    assert reached.scores[1]
    # Nodes with room for pods with GPUs, and nodes without, were asked about too.
    assert (min(reached.scores) < -(1 << 60) and len(reached.scores) > 6) is bool(args)
