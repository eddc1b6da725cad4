"""Plugins whose hooks call services while pods are bound: a quota that is claimed, an approval, a notice, a login."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, ClassVar

from kframework import CycleState, Handle, PendingPod, Plugin, PluginArgs, Status, Wait, hookimpl
from tests.faults.fault_schedule import FaultLog, FaultSchedule, Health
from tests.faults.source_plugins import LIMITS, PATIENCE, UnprintableError, misbehave, random_exception


class ServicePlugin(Plugin):
    """A plugin whose hooks ask a service."""

    weather: ClassVar[FaultSchedule]
    ledger: ClassVar[FaultLog]
    seed: ClassVar[str]
    #: How often it is tried in vain to start it.
    false_starts: ClassVar[list[Health]]

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        #: What is claimed for whom, by uid.
        self.claimed: dict[str, str] = {}

    @property
    def health(self) -> Health:
        """How the service fares now."""
        return self.weather.at(self.handle.clock)

    def random(self, pod: PendingPod) -> Random:
        """Return a generator that is the same in a replay, where no more than the hooks of a cycle are asked."""
        return Random(f"{self.seed}/{self.name}/{pod.uid}/{self.handle.clock.now()}")

    def call_at_once(self, hook: str, pod: PendingPod, nonsense: object) -> Any:
        """Answer, or fail, as the service fares; it takes no time."""
        health = self.health
        if health in (Health.HEALTHY, Health.SLOW) or (health is Health.WRONG and nonsense is None):
            return None
        self.ledger.record(self.name, hook, health)
        if health is Health.WRONG:
            return nonsense
        raise random_exception(self.random(pod))

    async def call_in_time(self, hook: str, pod: PendingPod, nonsense: object) -> Any:
        """Answer, or fail, as the service fares, sooner or later; what breaks it off but a time limit is no fault."""
        random, health, limit = self.random(pod), self.health, LIMITS[hook]
        if health is Health.HEALTHY:
            return await asyncio.sleep(random.choice([0.0, 0.1, 0.5]))
        loop, task, answer, raises = asyncio.get_running_loop(), asyncio.current_task(), None, False
        began = loop.time()
        try:
            answer = await misbehave(health, limit, random, nonsense)
        except (Exception, asyncio.CancelledError):
            raises = task is not None and not task.cancelling()
            raise
        finally:
            if raises or answer is not None or loop.time() - began > limit - 1e-6:
                self.ledger.record(self.name, hook, health)
        return answer

    async def start(self) -> None:
        if self.false_starts:
            health = self.false_starts.pop()
            self.ledger.record(self.name, "start", health)
            await misbehave(health, LIMITS["start"], Random(self.seed), None)


class QuotaClaims(ServicePlugin):
    """Claims something in Reserve, by halves perhaps."""

    @hookimpl
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        early = self.random(pod).random() < 0.5
        if early:
            self.claimed[pod.uid] = node_name
        answer: Status | None = self.call_at_once(
            "reserve", pod, self.random(pod).choice(["claimed", UnprintableError()])
        )
        self.claimed[pod.uid] = node_name
        return answer

    @hookimpl
    def unreserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        self.claimed.pop(pod.uid, None)
        self.call_at_once("unreserve", pod, None)


class PodApproval(ServicePlugin):
    """Lets pods wait until a service has approved them; one that it could not ask in time it asks for later."""

    @hookimpl
    def permit(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | Wait | None:
        if self.random(pod).random() < 0.3:
            return None
        answer: Status | None = self.call_at_once("permit", pod, random_nonsense(self.random(pod)))
        if answer is not None:
            return answer
        self.handle.spawn(self.ask(pod))
        return Wait(PATIENCE)

    async def ask(self, pod: PendingPod) -> None:
        """Ask until there is an answer."""
        while True:
            await asyncio.sleep(0.2)
            if self.health is Health.HEALTHY:
                break
        waiting = self.handle.waiting_pod(pod.uid)
        if waiting is not None:
            waiting.allow(self.name)
        elif pod.uid in self.handle.pending:
            self.handle.activate([pod])

    def __repr__(self) -> str:
        return self.name


def random_nonsense(random: Random) -> object:
    """Make what no Permit plugin may answer."""
    # A Wait of the wrong type is part of the nonsense.
    return random.choice(["yes", 7, True, UnprintableError(), Wait("long"), Wait(float("nan")), Wait(None)])  # type: ignore[arg-type]


class PodPreparation(ServicePlugin):
    """Prepares something before pods are bound."""

    @hookimpl
    async def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        # What it answers may be of the wrong type: that is the fault.
        return await self.call_in_time("pre_bind", pod, self.random(pod).choice(["done", 7, UnprintableError()]))  # type: ignore[no-any-return]


class BindNotice(ServicePlugin):
    """Notifies a service that a pod is bound."""

    @hookimpl
    async def post_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        await self.call_in_time("post_bind", pod, None)


SERVICES: list[type[ServicePlugin]] = [QuotaClaims, PodApproval, PodPreparation, PodPreparation, BindNotice]


def make_service_plugin(number: int, seed: str, cured: float, ledger: FaultLog) -> type[ServicePlugin]:
    """Make a plugin with a service."""
    base = SERVICES[number]
    name = f"{base.__name__}{number}"
    random = Random(f"{seed}/{name}")
    tries = random.choice([0, 0, 0, 0, 0, 1, 2])
    faults = [Health.SLOW, Health.DEAD, Health.HANGING, Health.SWALLOWING]
    return type(
        name,
        (base,),
        {
            "name": name,
            "parallel_pre_bind": random.random() < 0.6,
            "weather": FaultSchedule(random, cured, share=0.6),
            "ledger": ledger,
            "seed": seed,
            "false_starts": random.choices(faults, k=tries),
        },
    )
