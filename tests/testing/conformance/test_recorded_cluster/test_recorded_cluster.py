"""Recorded objects under an engine."""

from __future__ import annotations

import msgspec
import pytest

from kframework.core.runtime.registry import Registry
from kframework.errors import ConfigError
from kframework.objects import Namespace, PersistentVolume
from kframework.testing.conformance.recorded_cluster import RecordedCluster
from kframework.testing.single_plugin import PROFILE
from tests.testing.conformance.planted import Part, node, pod, with_plugins


def cluster(**parts: Part | list[Part]) -> RecordedCluster:
    return msgspec.convert(parts, RecordedCluster)


def test_objects_of_a_case_are_in_the_cluster_state() -> None:
    recorded = cluster(
        nodes=[node("a")],
        pods=[pod("running", nodeName="a")],
        nominatedPods=[pod("preemptor", nominatedNodeName="a")],
        namespaces=[{"metadata": {"name": "default"}}],
        persistentVolumes=[{"metadata": {"name": "pv-0"}}],
    )
    state = recorded.engine(Registry.from_installed()).cluster
    assert [info.name for info in state.nodes] == ["a"]
    assert [on.key for on in state.nodes[0].pods] == ["default/running"]
    assert state.nominator.nominated_node("pod-preemptor") == "a"
    assert len(state.objects(Namespace)) == len(state.objects(PersistentVolume)) == 1


def test_engine_schedules_nothing_by_itself() -> None:
    engine = cluster(nodes=[node("a")], nominatedPods=[pod("p", nominatedNodeName="a")]).engine(
        Registry.from_installed()
    )
    assert not engine.step()
    assert not engine.attempts


def test_every_node_is_filtered() -> None:
    assert cluster().engine(Registry.from_installed()).profiles[PROFILE].percentage_of_nodes_to_score == 100


def test_invalid_profile_is_rejected() -> None:
    with pytest.raises(ConfigError, match="NoSuchPlugin"):
        cluster(profile=with_plugins("NoSuchPlugin")).engine(Registry.from_installed())


def test_clusters_share_no_state() -> None:
    recorded = cluster(nodes=[node("a")])
    one, other = (recorded.engine(Registry.from_installed()) for _ in range(2))
    assert one.cluster is not other.cluster
    assert one.profiles[PROFILE].plugins["TaintToleration"] is not other.profiles[PROFILE].plugins["TaintToleration"]
