"""Of the pod engine a recording holds verdicts on waiting pods, too, and it goes on in new parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from kframework import CycleState, PendingPod, Plugin, Wait, hookimpl
from kframework.core.runtime.registry import Registry
from kframework.observe.recording.file import RecordingFile
from kframework.observe.recording.replay import replay
from kframework.state.inbox import Deleted, Synced, Upserted
from kframework.testing import make_node, make_pod
from tests.observe.recording.rig import RecordedRun, read

NODE, POD = make_node("a"), make_pod("p")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "inbox.jsonl.gz"


class Waiter(Plugin):
    """Keep pods waiting."""

    name = "Waiter"

    @hookimpl
    def permit(self, state: CycleState, pod: PendingPod, node_name: str) -> Wait:
        return Wait(60.0)


class OtherWaiter(Waiter):
    """Keep pods waiting, too."""

    name = "OtherWaiter"


def test_permit_verdicts_are_written_unless_given_during_a_step(file: Path) -> None:
    recorded = RecordedRun(file, Waiter, OtherWaiter)
    engine = recorded.engine
    for message in (Upserted(NODE), Upserted(POD), Upserted(make_pod("q")), Synced()):
        engine.offer(message)
    engine.step()
    engine.step()
    first, second = engine.cluster.waiting.awaiting_permit()
    first.allow("Waiter")
    first.allow("OtherWaiter")
    engine.offer(Deleted(second.pod.object))
    engine.step()
    assert second.verdict is not None
    lines = recorded.lines()
    assert [(line["what"], line.get("with", {}).get("plugin")) for line in lines[-4:]] == [
        ("PermitAllowed", "Waiter"), ("PermitDecided", None), ("Deleted", None), ("Step", None)
    ]  # fmt: skip
    assert lines[-3]["with"] == {"uid": first.pod.uid, "status": {"code": 0, "reasons": [], "plugin": ""}}


def test_new_part_starts_between_two_steps_or_on_standby(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = RecordedRun(file)
    engine = recorded.engine
    for message in (Upserted(NODE), Upserted(POD), Synced()):
        engine.offer(message)
    monkeypatch.setattr(RecordingFile, "is_full", True)
    engine.apply_messages()
    engine.step()
    recorded.recorder.close()
    parts = [list(read(file.with_name(file.name + suffix))) for suffix in (".2", ".1", "")]
    assert [part[0]["part"] for part in parts] == [1, 2, 3]
    assert [[line["what"] for line in part[1:]] for part in parts] == [
        ["Upserted", "Upserted", "Synced", "CatchUp"],
        ["Upserted", "Upserted", "Synced", "ActivateRequested", "PartState", "Step", "Decision"],
        ["Upserted", "Upserted", "Synced", "Decision", "ActivateRequested", "PartState"],
    ]


def test_part_of_many_messages_is_recorded_and_replayed(file: Path) -> None:
    recorded = RecordedRun(file)
    engine = recorded.engine
    for message in (Upserted(NODE), Upserted(make_node("b")), Upserted(POD), Synced()):
        engine.offer(message)
    assert engine.apply_some_messages(2) and not engine.apply_some_messages(2)
    engine.step()
    assert recorded.said()[4:] == ["MessagesApplied", "Step", "Decision"]
    result = replay(file, Registry.with_plugins())
    assert result.compared == {"attempt": [1]} and not result.differences
