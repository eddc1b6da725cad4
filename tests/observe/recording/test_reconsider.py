"""Another configuration decides every recorded attempt again, on the state as it was, and changes nothing of it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from pathlib import Path

import pytest

from kframework import ConfigError, CycleState, NodeInfo, PendingPod, Plugin, Status, hookimpl, unschedulable
from kframework.config.configuration import Configuration
from kframework.config.load import default_configuration, parse
from kframework.core.cycle.records import Decision
from kframework.core.runtime.registry import Registry
from kframework.objects import ApiObject
from kframework.observe.recording import file as recording_file
from kframework.observe.recording.diff import DecisionDiff, ReplayResult, Unrepeated
from kframework.observe.recording.file import RecordingFile
from kframework.observe.recording.pod_engine import recording_pod_engine_factory
from kframework.observe.recording.reconsider import Reconsideration, Reconsiderer, reconsider
from kframework.observe.recording.replay import follow
from kframework.observe.recording.writer import Recorder
from kframework.simulation.simulation import Simulation
from kframework.testing import make_node, make_pod
from tests.extension_points.scripted import alone
from tests.faults.pod_run import PLUGINS, RunSettings, run
from tests.faults.recording_lines import lines_of

KIND = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
ARGS = "{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}"
PACKED = parse(f"{KIND}profiles: [{{pluginConfig: [{ARGS}]}}]")
EXTENDED = parse(f'{KIND}extenders: [{{urlPrefix: "http://localhost:1", filterVerb: filter}}]')
ELSEWHERE = parse(f"{KIND}profiles: [{{schedulerName: other}}]")


def without(plugin: str) -> Configuration:
    return parse(f"{KIND}profiles: [{{plugins: {{multiPoint: {{disabled: [{{name: {plugin}}}]}}}}}}]")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "recording"


def record(
    file: Path,
    objects: Iterable[ApiObject],
    configuration: Configuration | None = None,
    registry: Registry | None = None,
) -> Path:
    """Record a simulation."""
    recorder = Recorder(file)
    Simulation(
        objects, configuration, registry=registry, engine=recording_pod_engine_factory(recorder), observers=[recorder]
    ).run()
    recorder.close()
    return file


def only(result: ReplayResult) -> DecisionDiff:
    (found,) = result.differences
    return found


def now_of(found: DecisionDiff) -> Decision:
    assert isinstance(found.replayed, Decision)
    return found.replayed


LARGE, SMALL, TAINTED = make_node("large", cpu=16), make_node("small", cpu=4), make_node("t", taints=["k=v:NoSchedule"])
POD, HUGE = make_pod("p", cpu="1"), make_pod("huge", cpu="32")
IMPORTANT = make_pod("important", cpu="2", priority=9)
VICTIM = make_pod("victim", cpu="3", node_name="small", priority=0)
DEFAULT, TOLERANT = default_configuration(), without("TaintToleration")


def test_reconsidering_with_the_same_configuration_finds_no_difference(file: Path) -> None:
    result = reconsider(record(file, [LARGE, SMALL, POD, HUGE]))
    assert (result.attempts, result.differences, result.part, result.cut_off) == (2, (), 1, False)


@pytest.mark.parametrize(
    ("objects", "recorded", "now", "kind"),
    [
        ([LARGE, SMALL, POD], DEFAULT, PACKED, "other node"),
        ([TAINTED, POD], DEFAULT, TOLERANT, "fits now"),
        ([TAINTED, POD], TOLERANT, DEFAULT, "fits no more"),
        (
            [SMALL, VICTIM, make_pod("first", cpu="2", priority=9)],
            DEFAULT,
            without("DefaultPreemption"),
            "other victims",
        ),
        ([TAINTED, HUGE], DEFAULT, TOLERANT, "other reasons"),
        ([LARGE, POD], DEFAULT, ELSEWHERE, "no profile"),
    ],
)
def test_each_kind_of_difference_is_reported(
    file: Path, objects: list[ApiObject], recorded: Configuration, now: Configuration, kind: str
) -> None:
    result = reconsider(record(file, objects, recorded), now)
    assert [found.kind for found in result.differences][:1] == [kind]


def test_difference_has_both_decisions(file: Path) -> None:
    found = only(reconsider(record(file, [LARGE, SMALL, POD]), PACKED))
    recorded, now = found.recorded, now_of(found)
    assert isinstance(recorded, Decision)
    assert (recorded.pod, recorded.attempt) == (now.pod, now.attempt) == ("default/p", 1)
    assert (recorded.node, now.node) == ("large", "small")
    assert dict(now.best_nodes)["small"] == now.score > dict(now.best_nodes)["large"]


def test_reconsidering_applies_the_recorded_outcomes(file: Path) -> None:
    """Were the first pod on the small node, the second one would not fit there."""
    record(file, [LARGE, SMALL, make_pod("first", cpu="3"), make_pod("second", cpu="3")])
    result = reconsider(file, PACKED)
    assert [now_of(found).node for found in result.differences] == ["small", "small"]


def test_random_ties_are_no_difference(file: Path) -> None:
    nodes = [make_node(f"node-{number}") for number in range(20)]
    record(file, [*nodes, *(make_pod(f"pod-{number}") for number in range(20))])
    other = parse("apiVersion: kframework.dev/v1\nkind: KFrameworkConfiguration\nseed: 42\n")
    result = reconsider(file, other)
    assert (result.attempts, result.differences) == (20, ())


class Refusing(Plugin):
    """Refuse every pod when its node is found."""

    name = "Refusing"

    @hookimpl
    def permit(self, state: CycleState, pod: PendingPod, node_name: str) -> Status:
        return unschedulable("no")


def test_reserve_and_permit_rejections_are_not_reconsidered(file: Path) -> None:
    registry, configuration = Registry.with_plugins(Refusing), parse(alone(Refusing))
    record(file, [LARGE, POD], configuration, registry)
    result = reconsider(file, configuration, registry)
    assert result.attempts and not result.differences
    attempts = tuple(range(1, result.attempts + 1))
    assert result.unrepeated == Unrepeated(late_rejections=attempts, hooks=("Refusing.permit",))


class Gating(Plugin):
    """Gate the pods that are called `gated`."""

    name = "Gating"

    @hookimpl
    def pre_enqueue(self, pod: PendingPod) -> Status | None:
        return unschedulable("not yet") if pod.name == "gated" else None


def test_gated_pods_are_named_as_not_repeated(file: Path) -> None:
    registry = Registry.with_plugins(Gating)
    record(file, [LARGE, POD, make_pod("gated")], parse(alone(Gating)), registry)
    result = reconsider(file, parse(alone(Refusing)), Registry.with_plugins(Gating, Refusing))
    assert result.unrepeated == Unrepeated(gated_pods=("default/gated",), hooks=("Refusing.permit",))


class Meddling(Plugin):
    """Ask for much, and leave a what-if open."""

    name = "Meddling"

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> None:
        self.handle.invalidate(node.name)
        self.handle.nominate(pod, node.name)
        self.handle.activate([pod])
        self.handle.event(pod, reason="R", action="A", note="n")
        self.handle.statement()


def test_requests_of_plugins_are_dropped_when_reconsidering(file: Path) -> None:
    registry = Registry.with_plugins(Meddling)
    replay = follow(
        record(file, [SMALL, POD], parse(alone(Refusing)), Registry.with_plugins(Refusing)),
        Registry.with_plugins(Refusing),
    )
    second = Reconsiderer(replay.engine, parse(alone(Meddling)), registry)
    recorded = next(iter(replay))
    assert isinstance(recorded, Decision)
    now = second.decide(recorded)
    assert now is not None and now.node == "small"
    cluster = replay.engine.cluster
    assert not len(replay.engine.inbox) and not len(cluster.nominator) and not cluster.statements
    assert replay.engine.queue.get(recorded.uid) is not None and not cluster.pods


def test_configuration_with_extenders_is_rejected(file: Path) -> None:
    with pytest.raises(ConfigError, match="remove them from the configuration"):
        reconsider(record(file, [LARGE, POD]), EXTENDED)


def test_configuration_of_another_minor_than_the_recording_is_rejected(file: Path) -> None:
    older = parse(f'{KIND}---\napiVersion: kframework.dev/v1\nkind: KFrameworkConfiguration\nemulatedVersion: "1.36"')
    with pytest.raises(ConfigError, match=r"must be those of the recording: set them to '1\.37' and \{\}"):
        reconsider(record(file, [LARGE, POD]), older)


@pytest.mark.slow
def test_baseline_that_is_the_new_configuration_never_differs(tmp_path: Path) -> None:
    """With preemption, Permit, volumes and churn, and whatever configuration was recorded."""
    run(0, RunSettings(pods=60, pause=4.0), tmp_path)
    recording = min(tmp_path.iterdir())
    for configuration in (PACKED, DEFAULT):
        both = Reconsideration(recording, configuration, PLUGINS, baseline=configuration)
        result = both.run()
        assert result.attempts > 60 and len(both.nodes) > 30 and not result.differences


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_later_part_of_a_recording_can_be_reconsidered(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = count()
    monkeypatch.setattr(RecordingFile, "is_full", property(lambda self: next(steps) % 100 == 99))
    monkeypatch.setattr(recording_file, "MAX_PARTS", 100)
    report = run(seed, RunSettings(pods=60, pause=4.0), tmp_path)
    parts = sorted(tmp_path.iterdir(), key=lambda part: lines_of(part)[0]["part"])
    assert len(parts) > 3
    results = [reconsider(part, registry=PLUGINS) for part in parts]
    assert [result.part for result in results] == list(range(1, len(parts) + 1))
    assert sum(result.attempts for result in results) == report.attempts
    assert not [found for result in results for found in result.differences]
