"""CacheLocality: where pods go for their data, and what is written of the nodes that they go to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import chain, repeat

import pytest
from cache_locality import DATASET, DATASETS, CacheLocality, CacheLocalityArgs

from kframework import ConfigError, Handle
from kframework.objects import Node, Pod
from kframework.testing import (
    PluginContract,
    Scenario,
    ScenarioResult,
    create,
    delete,
    make_node,
    make_pod,
)


def reader(name: str, dataset: str = "genomes", *, node: str = "") -> Pod:
    return make_pod(name, labels={DATASET: dataset}, node_name=node)


def node(name: str, *cached: str) -> Node:
    return make_node(name, cpu=64, memory="256Gi", annotations={DATASETS: ",".join(cached)} if cached else {})


def scenario(nodes: Sequence[Node], *pods: Pod, most: int = 3) -> Scenario:
    args, weights = {"CacheLocality": {"datasets": most}}, {"CacheLocality": 50}
    return Scenario(nodes=nodes, pods=pods, plugins=[CacheLocality], args=args, weights=weights)


def written(result: ScenarioResult, name: str) -> str | None:
    return result.cluster.read(Node, name).metadata.annotations.get(DATASETS)


def test_pod_is_bound_where_its_dataset_is_cached() -> None:
    result = scenario([node("a"), node("b", "genomes"), node("c", "weather")], reader("web")).run()
    assert result.node_of("web") == "b"


def test_recently_read_dataset_scores_higher() -> None:
    nodes = [node("a", "weather", "genomes"), node("b", "genomes", "weather"), node("c", "x", "y", "z", "genomes")]
    assert scenario(nodes, reader("web")).run().node_of("web") == "b"


def test_later_pods_use_the_cache_of_the_first() -> None:
    world = scenario([node(name) for name in "abcdef"], reader("first")).at(10, delete(reader("first")))
    for i in range(4):
        world.at(100, create(reader(f"late-{i}")))
    result = world.run()
    (decision,) = result.decisions_on("first")
    assert {result.node_of(f"late-{i}") for i in range(4)} == {decision.node}


def test_newest_datasets_are_kept() -> None:
    world = scenario([node("a", "old", "older", "oldest")])
    for i, dataset in enumerate(("new", "older", "newest", "newest")):
        world.at(i * 100, create(reader(f"pod-{i}", dataset))).at(i * 100 + 50, delete(reader(f"pod-{i}", dataset)))
    result = world.run()
    assert written(result, "a") == "newest,older,new"


def test_pods_without_dataset_write_nothing() -> None:
    result = scenario([node("a")], make_pod("web"), make_pod("empty", labels={DATASET: ""})).run()
    assert result.node_of("web") == result.node_of("empty") == "a"
    assert written(result, "a") is None


@pytest.mark.parametrize("annotation", ["", ",,", " genomes , ,genomes", "x" * 9999])
def test_invalid_annotation_is_corrected(annotation: str) -> None:
    result = scenario([node("a", annotation), node("b", annotation)], reader("web"), most=1).run()
    assert written(result, result.node_of("web") or "") in ("genomes", annotation)


def test_invalid_number_of_datasets_is_rejected() -> None:
    with pytest.raises(ConfigError, match="datasets"):
        scenario([], most=0).run()


class Slow(CacheLocality):
    """Has an API that takes ten seconds for the first write, and one for those that come after it."""

    name = "CacheLocality"

    def __init__(self, args: CacheLocalityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.seconds = chain([10.0], repeat(1.0))

    async def write(self, node_name: str, datasets: Sequence[str]) -> list[str]:
        await asyncio.sleep(next(self.seconds))
        return await super().write(node_name, datasets)


def test_late_write_keeps_concurrent_writes() -> None:
    world = Scenario(nodes=[node("a", "maps")], pods=[reader("first")], plugins=[Slow])
    result = world.at(5, create(reader("second", "weather"))).run()
    assert set((written(result, "a") or "").split(",")) == {"genomes", "weather", "maps"}


def test_pod_is_bound_although_its_node_is_deleted_before_the_write() -> None:
    result = Scenario(nodes=[node("a")], pods=[reader("web")], plugins=[Slow]).at(5, delete(node("a"))).run()
    assert result.node_of("web") == "a"


def test_concurrent_pods_are_all_written() -> None:
    pods = [reader(f"pod-{i}", f"set-{i}") for i in range(8)]
    result = scenario([node("a")], *pods, most=10).run()
    assert set((written(result, "a") or "").split(",")) == {f"set-{i}" for i in range(8)}


class TestContract(PluginContract):
    plugin = CacheLocality
    nodes = (node("a", "genomes"), node("b", "weather", "genomes"))
    pods = (reader("one"), reader("two", "weather"), reader("three", "maps", node="b"))
