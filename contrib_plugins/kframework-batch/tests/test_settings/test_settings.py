"""What a batch scheduler is made of."""

from __future__ import annotations

import asyncio
from typing import Any

from kframework_batch.config import parse
from kframework_batch.controllers.jobs import VolcanoJobController
from kframework_batch.controllers.pod_groups import PodGroupController
from kframework_batch.controllers.queues import QueueController
from kframework_batch.engine import BatchEngine
from kframework_batch.objects import Queue
from kframework_batch.program import compile_program, core_registry
from kframework_batch.settings import ProgramSettings

from kframework.clock import LoopClock, run_virtual
from kframework.in_memory.cluster import MemoryCluster
from kframework.scheduler.scheduler import Scheduler

PROGRAM = compile_program(parse("actions: shuffle\ntiers: [{plugins: [{name: predicates}, {name: nodeorder}]}]\n"))


def settings(**changed: Any) -> ProgramSettings:
    return ProgramSettings(PROGRAM, **changed)


def test_core_has_a_profile_for_every_scheduler_name() -> None:
    configuration = settings(scheduler_names=("mine", "yours"), seed=7).configuration
    assert [profile.scheduler_name for profile in configuration.profiles] == ["mine", "yours"]
    assert configuration.options.seed == 7


def test_engine_factory_uses_the_settings() -> None:
    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        of = settings(scheduler_names=("mine",), default_queue="main", period=5.0)
        scheduler = Scheduler(
            of.configuration, MemoryCluster(clock), clock, engine=of.engine_factory(), registry=core_registry()
        )
        assert isinstance(scheduler.engine, BatchEngine)
        assert list(scheduler.engine.profiles) == ["mine"]

    run_virtual(main)


def test_controllers_create_the_objects_of_volcano() -> None:
    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        cluster = MemoryCluster(clock)
        controllers = [make(cluster, clock) for make in settings(default_queue="main").controller_factories()]
        assert [type(controller) for controller in controllers] == [
            VolcanoJobController,
            PodGroupController,
            QueueController,
        ]
        tasks = [asyncio.ensure_future(controller.run()) for controller in controllers]
        await asyncio.sleep(1.0)
        assert "main" in {queue.metadata.name for queue in cluster.objects(Queue)}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    run_virtual(main)
