"""A recording holds what reaches the engine from outside, in order, and nothing that it does by itself."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest

from kframework import ConfigError, CycleState, PendingPod, Plugin, hookimpl
from kframework.config.load import default_configuration, parse
from kframework.config.show import effective_yaml
from kframework.core.engine import Engine
from kframework.core.host import Host
from kframework.core.plugin_handle import profiles_factory
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.registry import Registry, load_in_tree_args
from kframework.observe.recording.file import RecordingFile
from kframework.observe.recording.pod_engine import recording_pod_engine_factory
from kframework.observe.recording.replay import replay
from kframework.observe.recording.writer import FORMAT, VERSION, FrozenClock, Recorder, RecordingEngine
from kframework.scheduler.extender import Extender
from kframework.scheduler.extender_http import HttpExtenderTransport
from kframework.scheduler.extenders import Extenders
from kframework.state.inbox import AnswersInvalidated, Deleted, StatusChanged, Synced, Upserted
from kframework.testing import make_node, make_pod
from tests.observe.recording.rig import RecordedRun, Ticking, read

NODE, POD = make_node("a"), make_pod("p")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "inbox.jsonl.gz"


def test_messages_and_steps_are_written_in_order(file: Path) -> None:
    recorded = RecordedRun(file)
    engine = recorded.engine
    for message in (Upserted(NODE), Upserted(POD), Synced()):
        engine.offer(message)
    engine.step()
    engine.offer(Deleted(POD))
    engine.apply_messages()
    header, *lines = recorded.lines()
    assert (header["format"], header["version"]) == (FORMAT, VERSION)
    assert [line["what"] for line in lines] == [
        "Upserted", "Upserted", "Synced", "Step", "Decision", "Deleted", "CatchUp"
    ]  # fmt: skip
    assert lines[0]["with"]["kind"] == "Node" and lines[1]["with"]["metadata"]["name"] == "p"
    assert lines[4]["with"]["node"] == "a"


def test_status_only_change_is_written(file: Path) -> None:
    recorded = RecordedRun(file)
    for message in (StatusChanged(make_pod("p", node_name="a")), Deleted(POD)):
        recorded.engine.offer(message)
    recorded.engine.apply_messages()
    _, *lines = recorded.lines()
    assert [line["what"] for line in lines] == ["Upserted", "Deleted", "CatchUp"]


def test_header_has_the_configuration_and_the_seed(file: Path) -> None:
    text = "apiVersion: kframework.dev/v1\nkind: KFrameworkConfiguration\nseed: 42\n"
    recorder = Recorder(file)
    configuration, host = parse(text), Host()
    profiles = profiles_factory(configuration, Registry.with_plugins(), host)
    recording_pod_engine_factory(recorder)(configuration, Ticking(), host, Extenders(), profiles)
    recorder.close()
    (header,) = read(file)
    assert header["configuration"] == effective_yaml(configuration, load_in_tree_args(configuration))
    assert parse(header["configuration"]).options == configuration.options


def test_recorder_clock_is_frozen_during_a_step(file: Path) -> None:
    recorded = RecordedRun(file)
    engine = recorded.engine
    for message in (Upserted(NODE), Upserted(POD), Synced()):
        engine.offer(message)
    engine.step()
    moments = {line["what"]: line["at"] for line in recorded.lines()[1:]}
    assert moments["Step"] == moments["Decision"] > moments["Synced"] > moments["Upserted"]


def test_recorder_clock_resumes_after_a_step() -> None:
    clock = FrozenClock(Ticking())
    clock.freeze()
    assert clock.is_frozen and clock.now() == clock.now()
    clock.resume()
    assert not clock.is_frozen and clock.now() < clock.now()


class Meddler(Plugin):
    """Ask for something during a cycle, and for something when a node changes."""

    name = "Meddler"

    @hookimpl
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        self.handle.invalidate(node_name)

    @hookimpl
    def pre_enqueue(self, pod: PendingPod) -> None:
        self.handle.invalidate("a")


def test_messages_offered_during_a_step_are_not_written(file: Path) -> None:
    recorded = RecordedRun(file, Meddler)
    engine = recorded.engine
    for message in (Upserted(NODE), Upserted(POD), Synced()):
        engine.offer(message)
    engine.step()
    engine.request(AnswersInvalidated(("a",)))
    assert recorded.said() == ["Upserted", "Upserted", "Synced", "Step", "Decision", "AnswersInvalidated"]


EXTENDED = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders: [{urlPrefix: "http://localhost:1", filterVerb: filter}]
"""


def unmade(engine: Engine) -> NoReturn:
    raise AssertionError("no engine is made")


def test_recording_with_extenders_raises(file: Path) -> None:
    recorder = Recorder(file)
    (settings,) = parse(EXTENDED).settings.extenders
    extenders = Extenders([Extender(settings, HttpExtenderTransport(settings))])
    with pytest.raises(ConfigError, match="with extenders cannot be recorded"):
        recording_pod_engine_factory(recorder)(default_configuration(), Ticking(), Host(), extenders, unmade)
    recorder.close()


def test_equal_runs_write_equal_files(tmp_path: Path) -> None:
    def write(name: str) -> bytes:
        recorder = Recorder(tmp_path / name)
        configuration, host = default_configuration(), Host()
        profiles = profiles_factory(configuration, Registry.with_plugins(), host)
        engine = recording_pod_engine_factory(recorder)(configuration, Ticking(), host, Extenders(), profiles)
        engine.offer(Upserted(NODE))
        recorder.close()
        return (tmp_path / name).read_bytes()

    assert write("one") == write("other")


class Modest(RecordingEngine, PodEngine):
    """An engine whose recordings have one part."""


def test_recording_stops_with_a_warning_if_the_engine_has_no_parts(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    recorder, configuration, host = Recorder(file), default_configuration(), Host()
    host.report_decision = recorder.on_decision  # type: ignore[method-assign]  # as a scheduler's observer is told
    profiles = profiles_factory(configuration, Registry.with_plugins(), host)
    make = recorder.recording_factory(
        Modest.from_configuration, lambda configuration: effective_yaml(configuration, {})
    )
    engine = make(configuration, Ticking(), host, Extenders(), profiles)
    for message in (Upserted(NODE), Upserted(POD), Synced()):
        engine.offer(message)
    monkeypatch.setattr(RecordingFile, "_exceeds_limit", lambda self: True)
    while not recorder._file.is_full:
        assert not recorder._file.failed
    engine.step()
    for gone in (Deleted(POD), Deleted(NODE)):
        engine.offer(gone)
        engine.step()
    recorder.close()
    (notice,) = caplog.messages
    assert notice == (
        f"recording to {file} stopped: it is full, and recordings of this engine "
        "have only one part; scheduling continues"
    )
    assert [line["what"] for line in list(read(file))[1:]] == ["Upserted", "Upserted", "Synced", "Step", "Decision"]
    assert replay(file).difference is None
