"""Recordings of groups are replayed alike, followed to the recorded end, and decided again by other configurations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pytest

from kframework import (
    ClusterError,
    CycleState,
    PendingPod,
    Plugin,
    Simulation,
    Status,
    hookimpl,
    unschedulable,
)
from kframework.config.configuration import Configuration
from kframework.config.load import parse
from kframework.core.groups.cycle import PODS_PER_TURN
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.registry import Registry
from kframework.in_memory.cluster import Fault
from kframework.objects import ApiObject, CompositePodGroup, Pod, ResourceClaim
from kframework.observe.recording import file as recording_file
from kframework.observe.recording.diff import Unrepeated
from kframework.observe.recording.file import RecordingFile
from kframework.observe.recording.pod_engine import PodEngineKind, recording_pod_engine_factory
from kframework.observe.recording.reader import RecordingReader
from kframework.observe.recording.reconsider import reconsider
from kframework.observe.recording.replay import Replay, follow, replay
from kframework.observe.recording.writer import Recorder
from kframework.simulation.recording import Recording
from kframework.testing import make_node, make_pod
from tests.faults.recording_lines import Line, changed, lines_of, nth
from tests.plugins.dynamic_resources.claiming import GPUS, gpus
from tests.plugins.dynamic_resources.groups import CLAIMS, owning, team
from tests.support.devices import claim
from tests.support.groups import GROUPS, TREES, basic, below, gang, in_one, members, nodes, on_nodes, tree


def run(file: Path) -> Simulation:
    """Record gangs that fit and that do not, late pods, a preemption, and a binding that is refused at first."""
    recorder = Recorder(file)
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
    for each in (gang("high", 2, priority=9), *members("high", 2, cpu="4", priority=9)):
        simulation.create(each)
    simulation.run(60)
    recorder.close()
    return simulation


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Record a run of groups in one file."""
    simulation = run(tmp_path / "recording")
    assert len(simulation.bindings) > 8 and sum(bool(each.victims) for each in simulation.decisions) == 1
    return tmp_path / "recording"


def test_groups_are_replayed_alike(recording: Path) -> None:
    result = replay(recording, Registry.from_installed())
    assert result.difference is None and result.attempts > 10


def test_other_decision_on_a_group_is_a_difference_and_measured_times_are_none(recording: Path, tmp_path: Path) -> None:
    def other(lines: list[Line]) -> None:
        for line in lines:
            if line.get("what") == "GroupDecision":
                line["with"] |= {"started": 0, "timings": [], "took": 1}
        lines[nth(lines, "GroupDecision", 2)]["with"]["message"] = "no"

    difference = replay(changed(recording, tmp_path / "changed", other)).difference
    assert difference is not None
    assert str(difference).partition(": ")[2].startswith("group default/a got message ")


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


def test_trees_of_groups_are_replayed_alike(tmp_path: Path) -> None:
    """A group comes after its pods, another is deleted and made again, and a tree preempts."""
    leaves = [below("t", gang("a", 2)), in_one("kubernetes.io/hostname", below("t", basic("b")))]
    pods = [*members("a", 2, cpu="3", priority=5), *members("b", 2, priority=5)]
    low = on_nodes([make_pod(f"low-{number}", cpu="3") for number in range(2)])
    recorder = Recorder(tmp_path / "recording")
    factory = recording_pod_engine_factory(recorder)
    objects = [*nodes(3), *low, *pods, *leaves]
    simulation = Simulation(objects, config=TREES, engine=factory, observers=[recorder])
    simulation.run(5)
    assert not simulation.decisions
    simulation.create(tree("t", 2, priority=5))
    simulation.run(60)
    simulation.delete(CompositePodGroup, "t")
    simulation.create(members("b", 3, priority=5)[2])
    simulation.run(5)
    simulation.create(tree("t", 2, priority=5))
    simulation.run(60)
    recorder.close()
    assert len(simulation.bindings) == 5
    result = replay(tmp_path / "recording", Registry.from_installed())
    assert result.difference is None and result.attempts == len(simulation.decisions)


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


def state_of(engine: PodEngine) -> dict[str, object]:
    """Return what an engine knows of its pods."""
    cluster, queue = engine.cluster, engine.queue
    return {
        "nodes": {pod.key: pod.node_name for pod in cluster.pods.values()},
        "nominated": {uid: cluster.nominator.nominated_node(uid) for uid in sorted(engine.pending)},
        "queues": {uid: queue.queue_of(uid) for uid in sorted(engine.pending)},
        "attempts": engine.attempts,
    }


def test_groups_are_followed_to_the_recorded_end(recording: Path) -> None:
    followed, strict = follow(recording), Replay(RecordingReader(recording), PodEngineKind(PodEngine))
    assert followed.replay_all().compared == strict.replay_all().compared
    assert state_of(followed.engine) == state_of(strict.engine)


def test_groups_are_decided_again_alike(recording: Path) -> None:
    result = reconsider(recording)
    assert (result.differences, result.unrepeated) == ((), Unrepeated())
    assert result.attempts > 15


def test_later_parts_begin_with_groups_as_they_waited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = count()
    monkeypatch.setattr(RecordingFile, "is_full", property(lambda self: next(steps) % 4 == 3))
    monkeypatch.setattr(recording_file, "MAX_PARTS", 100)
    simulation = run(tmp_path / "recording")
    parts = sorted(tmp_path.iterdir(), key=lambda part: lines_of(part)[0]["part"])
    assert len(parts) > 5
    results = [reconsider(part) for part in parts]
    assert not [found for result in results for found in result.differences]
    assert sum(result.attempts for result in results) == len(simulation.decisions)
    last = follow(parts[-1])
    last.replay_all()
    assert state_of(last.engine) == state_of(simulation.scheduler.engine)


def with_groups(profile: str, gates: str = "GenericWorkload") -> Configuration:
    """Return a configuration with this profile and these gates on."""
    on = ", ".join(f"{gate}: true" for gate in gates.split())
    return parse(
        f"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{profile}]\n---\n"
        f"apiVersion: kframework.dev/v1\nkind: KFrameworkConfiguration\nfeatureGates: {{{on}}}"
    )


def without(plugin: str) -> Configuration:
    return with_groups(f"{{plugins: {{multiPoint: {{disabled: [{{name: {plugin}}}]}}}}}}")


MOST = "{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}"
DEFAULT, PACKED = with_groups("{}"), with_groups(f"{{pluginConfig: [{MOST}]}}")
ELSEWHERE = with_groups("{schedulerName: other}")
LARGE, SMALL = make_node("large", cpu=16), make_node("small", cpu=4)
TAINTED = make_node("tainted", cpu=16, taints=["k=v:NoSchedule"])
VICTIM = make_pod("victim", cpu="3", node_name="small", priority=0)


def record(file: Path, objects: Sequence[ApiObject], configuration: Configuration) -> Path:
    recorder = Recorder(file)
    factory = recording_pod_engine_factory(recorder)
    Simulation(objects, configuration, engine=factory, observers=[recorder]).run(5)
    recorder.close()
    return file


@pytest.mark.parametrize(
    ("cluster", "recorded", "now", "kinds"),
    [
        ([LARGE, SMALL], DEFAULT, PACKED, ["other node", "other node"]),
        ([TAINTED], DEFAULT, without("TaintToleration"), ["fits now", "fits now"]),
        ([TAINTED], without("TaintToleration"), DEFAULT, ["fits no more", "fits no more"]),
        ([SMALL, VICTIM], DEFAULT, without("DefaultPreemption"), ["other victims", "other victims"]),
        ([TAINTED, SMALL, VICTIM], DEFAULT, without("DefaultPreemption"), ["other victims", "other victims"]),
        ([LARGE], DEFAULT, ELSEWHERE, ["no profile", "no profile"]),
        ([LARGE], DEFAULT, DEFAULT, []),
    ],
)
def test_group_is_decided_again_as_a_whole(
    tmp_path: Path, cluster: list[ApiObject], recorded: Configuration, now: Configuration, kinds: list[str]
) -> None:
    objects = [*cluster, gang("g", 2, priority=9), *members("g", 2, cpu="2", priority=9)]
    result = reconsider(record(tmp_path / "recording", objects, recorded), now)
    assert [found.kind for found in result.differences][:2] == kinds


def test_pods_of_a_group_are_decided_beside_each_other_and_taken_back(tmp_path: Path) -> None:
    """Alone, the second pod would have the small node, too; the later one still finds room there."""
    objects = [LARGE, SMALL, gang("g", 2), *members("g", 2, cpu="3"), make_pod("later", cpu="3", priority=-1)]
    result = reconsider(record(tmp_path / "recording", objects, DEFAULT), PACKED)
    now = [(found.subject, found.recorded_text, found.replayed_text) for found in result.differences]
    assert now == [("default/g-0", "large", "small")]
    (later,) = (each for each in Recording(tmp_path / "recording").decisions if each.pod == "default/later")
    assert (later.evaluated, later.feasible) == (2, 2)


def test_group_in_another_placement_is_reported(tmp_path: Path) -> None:
    gates = "GenericWorkload TopologyAwareWorkloadScheduling"
    disabled = "{plugins: {multiPoint: {disabled: [{name: TaintToleration}]}}}"
    small = [make_node(f"a-{n}", cpu=4, labels={"rack": "a"}, taints=["k=v:NoSchedule"]) for n in range(2)]
    large = [make_node(f"b-{n}", cpu=8, labels={"rack": "b"}) for n in range(2)]
    objects = [*small, *large, in_one("rack", gang("g", 2)), *members("g", 2, cpu="2")]
    file = record(tmp_path / "recording", objects, with_groups(disabled, gates))
    assert reconsider(file).differences == ()
    found = reconsider(file, with_groups("{}", gates)).differences
    assert {(each.kind, each.recorded_text[0], each.replayed_text[0]) for each in found} == {("other node", "a", "b")}


def test_group_that_permit_rejects_is_not_repeated(tmp_path: Path) -> None:
    class Closed(Plugin):
        name = "Closed"
        is_open: bool = False

        @hookimpl
        def permit(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
            closed, self.is_open = not self.is_open, pod.name == "g-1"
            return unschedulable("closed") if pod.name == "g-1" and closed else None

    registry = Registry.with_plugins(Closed)
    closed = with_groups("{plugins: {multiPoint: {enabled: [{name: Closed}]}}}")
    recorder = Recorder(tmp_path / "recording")
    factory = recording_pod_engine_factory(recorder)
    objects = [LARGE, gang("g", 1), *members("g", 2)]
    Simulation(objects, closed, registry=registry, engine=factory, observers=[recorder]).run(1)
    recorder.close()
    result = reconsider(tmp_path / "recording", closed, registry)
    assert result.differences == ()
    assert result.unrepeated.late_rejections[:2] == (1, 2)


def test_explanation_of_a_recorded_group_has_its_last_cycle(recording: Path) -> None:
    group = Recording(recording).explain("a-2").explanation.group
    assert group is not None
    assert (group.failed_first, group.pods, group.scheduled) == ("default/a-2", 2, 1)
