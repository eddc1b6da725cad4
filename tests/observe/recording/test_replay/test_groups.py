"""A recording of groups is replayed alike; where attempts are followed one by one, groups are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from kframework import ClusterError, InputError, Simulation
from kframework.core.cycle.group_cycle import PODS_PER_TURN
from kframework.core.runtime.registry import Registry
from kframework.in_memory.cluster import Fault
from kframework.objects import Pod, ResourceClaim
from kframework.observe.recording.pod_engine import recording_pod_engine_factory
from kframework.observe.recording.replay import follow, replay
from kframework.observe.recording.writer import Recorder
from kframework.testing import make_pod
from tests.plugins.dynamic_resources.claiming import GPUS, gpus
from tests.plugins.dynamic_resources.groups import CLAIMS, owning, team
from tests.support.devices import claim
from tests.support.groups import GROUPS, basic, gang, members, nodes


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Record gangs that fit and that do not, late pods, and a binding that is refused at first."""
    recorder = Recorder(tmp_path / "recording")
    gangs = [gang("a", 2), *members("a", 3, cpu="3"), gang("b", 3), *members("b", 2), basic("c"), *members("c", 2)]
    factory = recording_pod_engine_factory(recorder)
    simulation = Simulation([*nodes(2), *gangs], config=GROUPS, engine=factory, observers=[recorder])
    refused = Fault(error=ClusterError("refused", status=403))
    simulation.cluster.faults.append(
        lambda method, kind, namespace, name: refused if (method, name) == ("bind", "a-1") else None
    )
    simulation.run(5)
    simulation.cluster.faults.clear()
    simulation.create(members("b", 3)[2])
    simulation.create(make_pod("single"))
    simulation.create(nodes(3)[2])
    simulation.run(60)
    assert len(simulation.bindings) > 6
    recorder.close()
    return tmp_path / "recording"


def test_groups_are_replayed_alike(recording: Path) -> None:
    result = replay(recording, Registry.from_installed())
    assert result.difference is None and result.attempts > 10


def test_cycle_of_a_large_group_is_recorded_and_replayed_whole(tmp_path: Path) -> None:
    size = 2 * PODS_PER_TURN
    recorder = Recorder(tmp_path / "recording")
    factory = recording_pod_engine_factory(recorder)
    objects = [*nodes(20), gang("a", size), *members("a", size)]
    simulation = Simulation(objects, config=GROUPS, engine=factory, observers=[recorder])
    simulation.run(5)
    recorder.close()
    result = replay(tmp_path / "recording", Registry.from_installed())
    assert result.difference is None and result.attempts == size == len(simulation.bindings)


def test_groups_that_share_claims_are_replayed_alike(tmp_path: Path) -> None:
    """The first pod that writes a claim is refused, and a group gives its claim up for another node."""
    pods = team(3)
    objects = [GPUS, *nodes(3), gpus("n1", "x"), claim(), owning(gang("g", 2), pods), *pods]
    recorder = Recorder(tmp_path / "recording")
    factory = recording_pod_engine_factory(recorder)
    simulation = Simulation(objects, config=CLAIMS, engine=factory, observers=[recorder])
    refused = [Fault(error=ClusterError("refused", status=403))]
    simulation.cluster.faults.append(
        lambda method, kind, *_: refused.pop() if refused and (method, kind) == ("patch", ResourceClaim) else None
    )
    simulation.run(60)
    assert len(simulation.bindings) == 4
    for pod in pods:
        simulation.delete(Pod, pod.metadata.name)
    simulation.run(60)
    simulation.create(make_pod("big", cpu="4", node_name="n1"))
    simulation.create(gpus("n2", "y"))
    for pod in pods:
        simulation.create(pod)
    simulation.run(60)
    recorder.close()
    assert len(simulation.bindings) == 7
    result = replay(tmp_path / "recording", Registry.from_installed())
    assert result.difference is None and result.attempts > 9


def test_groups_are_not_followed_and_the_error_says_so(recording: Path) -> None:
    with pytest.raises(InputError, match="only a strict replay makes decisions on groups"):
        follow(recording)
