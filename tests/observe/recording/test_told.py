"""An engine that is told what was recorded has the time that it was then."""

from __future__ import annotations

from pathlib import Path

from kframework.core.effects import Host
from kframework.core.runtime.registry import Registry
from kframework.observe.recording import reader
from kframework.observe.recording.pod_engine import PodEngines
from kframework.observe.recording.told import Told
from kframework.state.inbox import Changed, Synced
from kframework.testing import make_node
from tests.observe.recording.rig import Recorded


def test_what_comes_from_outside_comes_when_it_came(tmp_path: Path) -> None:
    run = Recorded(tmp_path / "recording")
    run.engine.offer(Changed(make_node("a")))
    run.engine.offer(Synced())
    run.engine.catch_up()
    written = run.lines()
    recorded = reader.Recorded(run.file)
    told = Told(recorded, PodEngines(Registry.of()), Host())
    assert told.now() == recorded.header.at
    for line, expected in zip(recorded, written[1:], strict=True):
        told.tell(line)
        assert told.now() == told.engine.clock.now() == expected["at"]
    assert told.engine.synced and [node.name for node in told.engine.cluster.nodes] == ["a"]
    told.go_to(7.0)
    assert told.engine.clock.now() == 7.0
