"""A recording replays to the same decisions in another process, and a replay notices every one that differs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kframework import Handle, Plugin, PluginArgs, Status, hookimpl, unschedulable
from kframework.config.load import parse
from kframework.core.cycle.decision import Binding, Decision
from kframework.core.effects import NullEffects
from kframework.core.plugin_handle import profiles_for
from kframework.core.runtime.registry import Registry
from kframework.observe.recording.replay import Replay, replay
from kframework.observe.recording.writer import Recorder
from kframework.scheduler.extenders import Extenders
from kframework.scheduler.simulate import simulate
from kframework.state.inbox import Changed, Synced
from kframework.testing import make_node, make_pod
from tests.extension_points.scripted import alone
from tests.faults.again import Again, again
from tests.faults.lines import Line, changed, lines_of, nth
from tests.faults.pod_run import PLUGINS, Report, Shape, run
from tests.support.outside import busy_plugin

#: How many random runs are replayed.
RUNS = max(int(os.environ.get("KFRAMEWORK_EXAMPLES", "25")) // 10, 2)

SHAPE = Shape(pods=40, pause=4.0)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return run(1, SHAPE, tmp_path_factory.mktemp("recorded"))


@pytest.mark.parametrize("seed", range(RUNS))
def test_another_process_decides_the_same(seed: int, tmp_path: Path) -> None:
    report = run(seed, SHAPE, tmp_path)
    assert report.attempts > SHAPE.pods
    result = again(report.recording, **os.environ, PYTHONHASHSEED=str(seed + 1))
    assert result == Again(report.attempts, None, report.attempts, [])


def test_all_is_told(recorded: Report) -> None:
    told = [line["what"] for line in lines_of(recorded.recording)[1:]]
    result = replay(recorded.recording, PLUGINS)
    assert result.steps == told.count("Step")
    assert result.decisions == told.count("Decision") == recorded.attempts
    others = {"Step", "CatchUp", "Decision", "Binding", "Allowed", "Judged"}
    assert result.messages == sum(what not in others for what in told)
    assert {"Activated", "Nominated", "Touched", "BindingStarted", "BindingEnded", "Gone"} < set(told)
    assert {"Allowed", "Judged"} < set(told)


# -- what differs ------------------------------------------------------------------------------------------------------


def other_node(lines: list[Line]) -> None:
    lines[nth(lines, "Decision", 7)]["with"]["message"] = "elsewhere"


def one_more(lines: list[Line]) -> None:
    place = nth(lines, "Decision", 7)
    lines.insert(place, lines[place])


def one_less(lines: list[Line]) -> None:
    del lines[nth(lines, "Decision", 7)]


def last_one_less(lines: list[Line]) -> None:
    place = nth(lines, "Decision", -1)
    del lines[place:]


@pytest.mark.parametrize(
    ("change", "compared", "told"),
    [
        (other_node, 8, "came to message "),
        (one_more, 8, "is in the recording only"),
        (one_less, 7, "is in the replay only"),
        (last_one_less, None, "is in the replay only"),
    ],
)
def test_a_decision_that_differs_is_told(
    recorded: Report, tmp_path: Path, change: Callable[[list[Line]], None], compared: int | None, told: str
) -> None:
    result = replay(changed(recorded.recording, tmp_path / "changed", change), PLUGINS)
    assert result.difference is not None
    assert told in str(result.difference)
    assert result.decisions == (recorded.attempts - 1 if compared is None else compared)


def test_what_was_measured_may_differ(recorded: Report, tmp_path: Path) -> None:
    def slower(lines: list[Line]) -> None:
        for line in lines:
            if line.get("what") == "Decision":
                line["with"] |= {"started": 0, "timings": []}

    assert replay(changed(recorded.recording, tmp_path / "changed", slower), PLUGINS).difference is None


@pytest.mark.parametrize("kept", [0.2, 0.5, 0.8])
def test_a_recording_whose_writer_died_is_read_as_far_as_it_goes(recorded: Report, tmp_path: Path, kept: float) -> None:
    data = recorded.recording.read_bytes()
    file = tmp_path / "short"
    file.write_bytes(data[: int(len(data) * kept)])
    result = replay(file, PLUGINS)
    assert result.difference is None
    assert 0 < result.decisions < recorded.attempts


@pytest.mark.parametrize("kept", [0.2, 0.5])
def test_that_it_is_cut_off_is_told(recorded: Report, tmp_path: Path, kept: float) -> None:
    assert not replay(recorded.recording, PLUGINS).cut_off
    file = tmp_path / "short"
    file.write_bytes(recorded.recording.read_bytes()[: int(recorded.recording.stat().st_size * kept)])
    assert replay(file, PLUGINS).cut_off


class Clock:
    """A clock that is set."""

    def __init__(self, moment: float) -> None:
        self.moment = moment

    def now(self) -> float:
        return self.moment


def test_the_queue_of_a_replay_is_as_old_as_the_recorded_one(tmp_path: Path) -> None:
    """The pool of unschedulable pods is looked through every 30 s from then on."""
    recorder, clock = Recorder(tmp_path / "recording"), Clock(1007.5)
    outside = NullEffects()
    outside.decided = recorder.decided  # type: ignore[method-assign]  # as a scheduler's observer is told
    configuration = parse(alone(Never))
    profiles = profiles_for(configuration, Registry.of(Never), outside)
    engine = recorder.engine(configuration, clock, outside, Extenders(), profiles)
    for message in (Changed(make_node("a")), Changed(make_pod("p")), Synced()):
        engine.offer(message)
    engine.step()
    flush = engine.deadline
    assert flush is not None
    for moment in (flush - 1.0, flush):
        clock.moment = moment
        engine.step()
    recorder.close()
    assert engine.attempts == 2
    result = replay(tmp_path / "recording", Registry.of(Never))
    assert (result.difference, result.decisions) == (None, 2)


class Never(Plugin):
    """Fit no pod anywhere."""

    name = "Never"

    @hookimpl
    def filter(self, state: object, pod: object, node: object) -> Status:
        return unschedulable("never")


# -- outside data ------------------------------------------------------------------------------------------------------


def load(*, asked: list[str] | None = None) -> type[Plugin]:
    """Make a plugin whose source changes, then fails until it is stale."""
    says = iter([{"a": 0.9}, {"a": 0.9}, {"a": 0.1, "b": 0.9}, {"a": 0.1, "b": 0.2}])

    class Load(busy_plugin(stale_after=40)):  # type: ignore[misc]  # the base is made by a function
        def __init__(self, args: PluginArgs, handle: Handle) -> None:
            super().__init__(args, handle)
            self.load.fetch = self.fetch

        async def fetch(self) -> dict[str, float]:
            if asked is not None:
                asked.append("asked")
            try:
                return next(says)
            except StopIteration:
                raise ConnectionError("no route") from None

    return Load


def test_outside_data_come_from_the_recording(tmp_path: Path) -> None:
    recorder, asked = Recorder(tmp_path / "recording"), list[str]()
    registry = Registry.of(load())
    pods = [make_pod("web"), make_pod("big", cpu=64)]
    simulate(
        [make_node("a", cpu=4), *pods],
        parse(alone(load())),
        registry=registry,
        duration=400,
        engine=recorder.engine,
        observers=[recorder],
    )
    recorder.close()
    told = [line for line in lines_of(tmp_path / "recording")[1:] if line["what"].startswith("Source")]
    assert [line["what"] for line in told[:6]] == ["SourceChanged"] * 4 + ["SourceFailed"] * 2
    assert told[2]["with"]["values"] == {"a": 0.1, "b": 0.9}
    result = replay(tmp_path / "recording", Registry.of(load(asked=asked)))
    assert result.difference is None
    assert result.decisions >= 3
    assert asked == []


def test_a_recording_that_is_followed_has_them_at_every_moment(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "recording")
    simulate(
        [make_node("a"), make_pod("web")],
        parse(alone(load())),
        registry=Registry.of(load()),
        duration=100,
        engine=recorder.engine,
        observers=[recorder],
    )
    recorder.close()
    followed = Replay(tmp_path / "recording", Registry.of(load()))
    (source,) = followed.engine.sources
    held = []
    while (decision := followed.tell_until(lambda decision: True)) is not None:
        held.append((dict(source), decision.node))
    assert held[0] == ({"a": 0.9}, "")
    assert held[-1] == ({"a": 0.1, "b": 0.9}, "a")


# -- a recording that is followed --------------------------------------------------------------------------------------


class Notes:
    """What an observer was told."""

    def __init__(self) -> None:
        self.decisions: list[Decision] = []
        self.bindings: list[Binding] = []

    def decided(self, decision: Decision) -> None:
        self.decisions.append(decision)

    def bound(self, binding: Binding) -> None:
        self.bindings.append(binding)


class Followed(Replay):
    """A replay that notes what its engine decides."""

    def __init__(self, file: Path, notes: Notes) -> None:
        self.made: list[Decision] = []
        super().__init__(file, PLUGINS, [notes])

    def decided(self, decision: Decision) -> None:
        self.made.append(decision)


MEASURED = {"started", "timings", "plugins"}
DECIDED = [name for name in Decision.__struct_fields__ if name not in MEASURED]


def decided(decision: Decision) -> list[object]:
    return [getattr(decision, name) for name in DECIDED]


@pytest.mark.parametrize("seed", range(RUNS))
def test_the_engine_of_a_replay_decides_what_was_decided(seed: int, tmp_path: Path) -> None:
    recording, notes = run(seed, SHAPE, tmp_path).recording, Notes()
    followed = Followed(recording, notes)
    assert followed.tell_until(lambda decision: False) is None
    told = [line["what"] for line in lines_of(recording)[1:]]
    assert len(notes.decisions) == told.count("Decision") and len(notes.bindings) == told.count("Binding")
    assert list(map(decided, followed.made)) == list(map(decided, notes.decisions))


def test_a_replay_stops_right_before_an_attempt(recorded: Report) -> None:
    notes = Notes()
    followed = Followed(recorded.recording, notes)
    for attempt in (1, 7, 8, recorded.attempts):
        decision = followed.tell_until(lambda decision, attempt=attempt: decision.attempt == attempt)  # type: ignore[misc]  # of the loop
        assert decision is not None and decision.attempt == attempt == len(notes.decisions) + 1
        assert followed.engine.attempts == len(followed.made) == attempt - 1
        assert followed.clock.now() == decision.popped_at
        queued = followed.engine.queue.get(decision.uid)
        assert queued is not None and queued.attempts == decision.tries - 1
        assert not len(followed.engine.inbox)
    assert followed.tell_until(lambda decision: True) is None
    assert followed.engine.attempts == recorded.attempts
    assert followed.tell_until(lambda decision: True) is None


def test_what_was_decided_is_what_happens(recorded: Report, tmp_path: Path) -> None:
    """Also where the engine would decide otherwise: the recorded node is where the pod goes."""

    def elsewhere(lines: list[Line]) -> None:
        for line in lines:
            if line.get("what") == "Decision" and line["with"]["feasible"] > 1:
                line["with"]["node"] = line["with"]["top"][-1][0]

    file = changed(recorded.recording, tmp_path / "changed", elsewhere)
    assert replay(file, PLUGINS).difference is not None
    notes = Notes()
    followed = Followed(file, notes)
    followed.tell_until(lambda decision: False)
    made = {decision.attempt: decision.node for decision in followed.made}
    told = {decision.attempt: decision.node for decision in notes.decisions if decision.feasible > 1}
    assert len(told) > 10
    assert {attempt: made[attempt] for attempt in told} == told
