"""Recordings of random worlds of groups are replayed, followed and decided again without a difference."""

from __future__ import annotations

from pathlib import Path

import pytest

from kframework import Simulation
from kframework.core.pod_engine import PodEngine
from kframework.objects import ApiObject
from kframework.observe.recording.pod_engine import PodEngineKind, recording_pod_engine_factory
from kframework.observe.recording.reader import RecordingReader
from kframework.observe.recording.reconsider import reconsider
from kframework.observe.recording.replay import Replay, follow
from kframework.observe.recording.writer import Recorder
from tests.observe.recording.test_replay.test_groups import state_of
from tests.properties.test_group_claims import ClaimWorld
from tests.properties.test_groups import World
from tests.support.scale import seeds


class Recorded(World):
    """A world whose scheduler is recorded."""

    def __init__(self, seed: int, file: Path) -> None:
        self.recorder = Recorder(file)
        super().__init__(seed)

    def new_simulation(self, objects: list[ApiObject], seed: int) -> Simulation:
        factory = recording_pod_engine_factory(self.recorder)
        return Simulation(objects, config=self.config, seed=seed, engine=factory, observers=[self.recorder])


class RecordedClaims(Recorded, ClaimWorld):
    """A recorded world whose groups share claims."""


@pytest.mark.parametrize("world_type", [Recorded, RecordedClaims])
@pytest.mark.parametrize("seed", seeds(10))
def test_recorded_world_of_groups_is_followed_and_decided_again(
    seed: int, world_type: type[Recorded], tmp_path: Path
) -> None:
    world = world_type(seed, tmp_path / "recording")
    world.run()
    world.recorder.close()
    strict = Replay(RecordingReader(tmp_path / "recording"), PodEngineKind(PodEngine))
    followed = follow(tmp_path / "recording")
    assert strict.replay_all().difference is None
    followed.replay_all()
    assert state_of(followed.engine) == state_of(strict.engine)
    assert reconsider(tmp_path / "recording").differences == ()
