"""A recording holds what reaches the engine from outside, in order, and nothing that it does by itself."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pytest

from kframework import ConfigError, CycleState, PendingPod, Plugin, Wait, hookimpl
from kframework.config.load import default_configuration, parse
from kframework.core.effects import NullEffects
from kframework.core.plugin_handle import HandledEngine, profiles_for
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.registry import Registry
from kframework.observe.recording.file import RecordingFile
from kframework.observe.recording.writer import FORMAT, VERSION, Recorder, StandingClock
from kframework.scheduler.extender import Extender
from kframework.scheduler.extenders import Extenders
from kframework.scheduler.http_line import HttpLine
from kframework.state.inbox import Changed, Gone, Synced, Touched
from kframework.testing import make_node, make_pod
from tests.extension_points.scripted import alone

NODE, POD = make_node("a"), make_pod("p")


class Ticking:
    """A clock that moves on whenever somebody looks at it."""

    def __init__(self) -> None:
        self.moment = 100.0

    def now(self) -> float:
        self.moment += 1.0
        return self.moment


class Recorded:
    """An engine in a recording."""

    def __init__(self, file: Path, *plugins: type[Plugin]) -> None:
        self.file = file
        self.recorder = Recorder(file)
        self.outside = NullEffects()
        self.outside.decided = self.recorder.decided  # type: ignore[method-assign]  # as a scheduler's observer is told
        configuration = parse(alone(*plugins))
        profiles = profiles_for(configuration, Registry.of(*plugins), self.outside)
        self.engine: PodEngine = self.recorder.engine(configuration, Ticking(), self.outside, Extenders(), profiles)

    def lines(self) -> list[dict[str, Any]]:
        """End the recording and read it."""
        self.recorder.close()
        return list(read(self.file))

    def said(self) -> list[str]:
        """End the recording and name what happened."""
        return [line["what"] for line in self.lines()[1:]]


def read(file: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(file) as lines:
        yield from map(msgspec.json.decode, lines)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "inbox.jsonl.gz"


def test_messages_and_steps_stand_in_their_order(file: Path) -> None:
    recorded = Recorded(file)
    engine = recorded.engine
    for message in (Changed(NODE), Changed(POD), Synced()):
        engine.offer(message)
    engine.step()
    engine.offer(Gone(POD))
    engine.catch_up()
    header, *lines = recorded.lines()
    assert (header["format"], header["version"]) == (FORMAT, VERSION)
    assert [line["what"] for line in lines] == [
        "Changed", "Changed", "Synced", "Step", "Decision", "Gone", "CatchUp"
    ]  # fmt: skip
    assert lines[0]["with"]["kind"] == "Node" and lines[1]["with"]["metadata"]["name"] == "p"
    assert lines[4]["with"]["node"] == "a"


def test_the_header_holds_the_configuration_and_the_seed(file: Path) -> None:
    text = "apiVersion: kframework.dev/v1\nkind: KFrameworkConfiguration\nseed: 42\n"
    recorder = Recorder(file)
    configuration, outside = parse(text), NullEffects()
    profiles = profiles_for(configuration, Registry.of(), outside)
    recorder.engine(configuration, Ticking(), outside, Extenders(), profiles)
    recorder.close()
    (header,) = read(file)
    assert parse(header["configuration"]) == parse(text)


def test_time_stands_still_during_a_step(file: Path) -> None:
    recorded = Recorded(file)
    engine = recorded.engine
    for message in (Changed(NODE), Changed(POD), Synced()):
        engine.offer(message)
    engine.step()
    moments = {line["what"]: line["at"] for line in recorded.lines()[1:]}
    assert moments["Step"] == moments["Decision"] > moments["Synced"] > moments["Changed"]


def test_time_goes_on_after_a_step() -> None:
    clock = StandingClock(Ticking())
    clock.stop()
    assert clock.standing and clock.now() == clock.now()
    clock.go_on()
    assert not clock.standing and clock.now() < clock.now()


class Meddler(Plugin):
    """Ask for something during a cycle, and for something when a node changes."""

    name = "Meddler"

    @hookimpl
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        self.handle.touch(node_name)

    @hookimpl
    def pre_enqueue(self, pod: PendingPod) -> None:
        self.handle.touch("a")


def test_what_an_engine_offers_itself_during_a_step_is_not_written(file: Path) -> None:
    recorded = Recorded(file, Meddler)
    engine = recorded.engine
    for message in (Changed(NODE), Changed(POD), Synced()):
        engine.offer(message)
    engine.step()
    engine.ask(Touched(("a",)))
    assert recorded.said() == ["Changed", "Changed", "Synced", "Step", "Decision", "Touched"]


class Waiter(Plugin):
    """Keep pods waiting."""

    name = "Waiter"

    @hookimpl
    def permit(self, state: CycleState, pod: PendingPod, node_name: str) -> Wait:
        return Wait(60.0)


class OtherWaiter(Waiter):
    """Keep pods waiting, too."""

    name = "OtherWaiter"


def test_verdicts_from_outside_are_written_and_those_of_a_step_are_not(file: Path) -> None:
    recorded = Recorded(file, Waiter, OtherWaiter)
    engine = recorded.engine
    for message in (Changed(NODE), Changed(POD), Changed(make_pod("q")), Synced()):
        engine.offer(message)
    engine.step()
    engine.step()
    first, second = engine.cluster.waiting.undecided()
    first.allow("Waiter")
    first.allow("OtherWaiter")
    engine.offer(Gone(second.pod.object))
    engine.step()
    assert second.verdict is not None
    lines = recorded.lines()
    assert [(line["what"], line.get("with", {}).get("plugin")) for line in lines[-4:]] == [
        ("Allowed", "Waiter"), ("Judged", None), ("Gone", None), ("Step", None)
    ]  # fmt: skip
    assert lines[-3]["with"] == {"uid": first.pod.uid, "status": {"code": 0, "reasons": [], "plugin": ""}}


EXTENDED = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders: [{urlPrefix: "http://localhost:1", filterVerb: filter}]
"""


def unmade(engine: HandledEngine) -> NoReturn:
    raise AssertionError("no engine is made")


def test_a_run_with_extenders_is_refused(file: Path) -> None:
    recorder = Recorder(file)
    (settings,) = parse(EXTENDED).settings.extenders
    extenders = Extenders([Extender(settings, HttpLine(settings))])
    with pytest.raises(ConfigError, match="with extenders cannot be recorded"):
        recorder.engine(default_configuration(), Ticking(), NullEffects(), extenders, unmade)
    recorder.close()


def test_the_same_run_makes_the_same_file(tmp_path: Path) -> None:
    def write(name: str) -> bytes:
        recorder = Recorder(tmp_path / name)
        configuration, outside = default_configuration(), NullEffects()
        profiles = profiles_for(configuration, Registry.of(), outside)
        engine = recorder.engine(configuration, Ticking(), outside, Extenders(), profiles)
        engine.offer(Changed(NODE))
        recorder.close()
        return (tmp_path / name).read_bytes()

    assert write("one") == write("other")


def test_a_new_part_begins_between_two_steps_and_while_standing_by(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(file)
    engine = recorded.engine
    for message in (Changed(NODE), Changed(POD), Synced()):
        engine.offer(message)
    monkeypatch.setattr(RecordingFile, "full", True)
    engine.catch_up()
    engine.step()
    recorded.recorder.close()
    parts = [list(read(file.with_name(file.name + suffix))) for suffix in (".2", ".1", "")]
    assert [part[0]["part"] for part in parts] == [1, 2, 3]
    assert [[line["what"] for line in part[1:]] for part in parts] == [
        ["Changed", "Changed", "Synced", "CatchUp"],
        ["Changed", "Changed", "Synced", "Activated", "Continued", "Step", "Decision"],
        ["Changed", "Changed", "Synced", "Decision", "Activated", "Continued"],
    ]
