"""A run of the pod engine: with recordings, volumes, devices, preemption, Permit, an extender, plugins that raise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from kframework.config.configuration import Configuration
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.registry import Registry
from kframework.in_memory.claim_controller import ClaimController
from kframework.in_memory.disruptions import DisruptionController
from kframework.in_memory.volume_controller import VolumeController
from kframework.observe.recording.pod_engine import recording_pod_engine_factory
from kframework.observe.recording.writer import Recorder
from tests.faults.device_invariants import DeviceChecker
from tests.faults.disruptive_plugins import RandomErrors
from tests.faults.groups import GroupChecker
from tests.faults.invariants import EngineChecker, groups_not_woken, leftovers, pods_not_woken, state_differences
from tests.faults.run import FaultyRun, Report, Runnable
from tests.faults.run import run as run_world
from tests.faults.run_settings import PLUGINS, RunSettings, configuration
from tests.faults.scheduler_run import SchedulerRun
from tests.faults.unreliable_extender import UnreliableExtender
from tests.faults.world import World
from tests.support.faulty_transport import Rates

__all__ = ["PLUGINS", "Report", "RunSettings", "configuration", "run"]

#: How many bytes a recording may take: a run of 10,000 pods is to be in one part.
LIMIT = 1 << 40


def run(seed: int, shape: RunSettings, folder: Path, *, limit: int = LIMIT) -> Report:
    """Run a world of this seed and shape to its end; each inbox is recorded in the folder, in files of this size."""
    return run_world(PodRun(seed, shape, folder, limit))


class PodRun(FaultyRun[PodEngine]):
    """One run; what extenders answer is not recorded, so with an extender there is no recording."""

    def __init__(self, seed: int, shape: RunSettings, folder: Path, limit: int) -> None:
        super().__init__(seed, shape)
        self._folder = folder
        self._limit = limit
        self._books: list[EngineChecker] = []

    def world(self) -> Runnable:
        self._device_books = DeviceChecker(self.store, self.scheduler_runs)
        patience = math.inf if self.shape.rates != Rates() else 1.0  # a bind that fails is tried again
        self._group_books = GroupChecker(self.store, self.clock, patience, bool(self.shape.gang_timeout))
        self._extender = UnreliableExtender(self.random("extender"), self.clock, self.troubles)
        return World(self.store, self.clock, self.random("world"), self.shape, self.deleted, self.troubles)

    def controllers(self) -> Sequence[Runnable]:
        budgets = [DisruptionController(self.store)] if self.shape.budgets else []
        claims = [ClaimController(self.store, self.clock)] if self.shape.devices else []
        books = [self._device_books] if math.isinf(self.shape.lifetime) else []
        return [VolumeController(self.store), *budgets, *claims, *books]

    @property
    def registry(self) -> Registry:
        """The plugins of all schedulers."""
        return PLUGINS

    def configuration(self, number: int) -> Configuration:
        """Make the configuration of the scheduler of this number."""
        return configuration(self.seed, self.shape, number)

    def scheduler_run(self, number: int) -> SchedulerRun[PodEngine]:
        recorder = None if self.shape.extender else Recorder(self._recording(number), limit=self._limit)
        life = SchedulerRun(
            self.configuration(number),
            self.faulty,
            self.clock,
            self.random(f"client {number}" if number else "client"),
            registry=self.registry,
            engine=PodEngine.from_configuration if recorder is None else recording_pod_engine_factory(recorder),
            recorder=recorder,
            extender=self._extender,
        )
        self._books.append(EngineChecker(life.scheduler.engine))
        self._group_books.begin_scheduler()
        return life

    def end_faults(self) -> None:
        super().end_faults()
        self._extender.until = self.clock.now()

    async def check(self, life: SchedulerRun[PodEngine]) -> list[str]:
        for each in self.scheduler_runs:
            for _, plugin in each.scheduler.profiles.plugins():
                if isinstance(plugin, RandomErrors):
                    self.troubles.update(plugin.raised)
        return [
            *(problem for books in self._books for problem in books.problems),
            *leftovers(life.scheduler, self._books[-1]),
            *pods_not_woken(life.scheduler.engine),
            *self._group_books.problems(),
            *self._device_books.problems,
            *self._device_books.leftovers(life.scheduler),
            *await state_differences(life.scheduler, life.client, self._books[-1]),
            *await groups_not_woken(life.scheduler.engine),
        ]

    @property
    def recordings(self) -> list[Path]:
        return [] if self.shape.extender else [self._recording(number) for number in range(len(self.scheduler_runs))]

    def _recording(self, number: int) -> Path:
        return self._folder / f"inbox-{self.seed}{f'-{number}' if number else ''}.jsonl.gz"
