"""Commands: each order to a Job is carried out once."""

from __future__ import annotations

import asyncio

import pytest
from kframework_batch.objects import Command

from kframework.clock import VirtualTimeLoop
from kframework.objects import ObjectMeta, OwnerReference, Pod
from tests.support.volcano_jobs import job, on, running, task


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


def command(action: str, job: str = "j") -> Command:
    target = OwnerReference(api_version="batch.volcano.sh/v1alpha1", kind="Job", name=job)
    named = ObjectMeta(name=action.lower(), namespace="default")
    return Command(metadata=named, action=action, target=target)


async def test_job_is_aborted_and_resumed_by_command_once() -> None:
    async with running(job(task("a", 1, 10), task("b", 2))) as world:
        await world.schedule()
        await world.settle(11)
        assert world.pods == {"j-a-0": "Succeeded", "j-b-0": "Running", "j-b-1": "Running"}
        uid = world.memory.read(Pod, "j-a-0").metadata.uid
        world.memory.add(command("AbortJob"))
        await world.settle()
        assert (world.phase, world.status.state.reason) == ("Aborting", "CommandIssued")
        assert world.memory.objects(Command) == []
        await world.settle(6)
        assert (world.phase, world.pods, world.group) == ("Aborted", {"j-a-0": "Succeeded"}, None)
        await world.settle(500)
        world.memory.add(command("ResumeJob"))
        await world.settle()
        await world.schedule()
        assert (world.phase, world.counts) == ("Running", (0, 2, 1, 0, 0))
        assert world.memory.read(Pod, "j-a-0").metadata.uid == uid
        assert (world.status.retry_count, world.memory.objects(Command)) == (1, [])


@pytest.mark.parametrize(
    ("action", "end"),
    [("TerminateJob", "Terminated"), ("CompleteJob", "Completed"), ("RestartJob", "Pending"), ("SyncJob", "Running")],
)
async def test_commands_have_the_same_effect_as_policies(action: str, end: str) -> None:
    async with running(job(task("a", 2))) as world:
        await world.schedule()
        world.memory.add(command(action))
        await world.settle(6)
        assert (world.phase, world.memory.objects(Command)) == (end, [])


async def test_restarting_job_finishes_restart_before_abort() -> None:
    async with running(job(task("a", 2), policies=on("PodFailed", "RestartJob"))) as world:
        await world.schedule()
        await world.fail("j-a-0")
        world.memory.add(command("AbortJob"))
        await world.settle()
        assert (world.phase, len(world.memory.objects(Command))) == ("Restarting", 1)
        await world.settle(6)
        assert (world.phase, world.memory.objects(Command)) == ("Aborted", [])


async def test_command_waits_for_its_job() -> None:
    async with running() as world:
        world.memory.add(command("AbortJob"))
        await asyncio.sleep(2)
        assert not world.controller.idle
        world.memory.add(job(task("a", 1)))
        await world.settle(10)
        assert (world.phase, world.memory.objects(Command)) == ("Aborted", [])
        world.memory.add(command("AbortJob", job="nobody"))
        await world.settle(11)
        assert world.memory.objects(Command) == []
