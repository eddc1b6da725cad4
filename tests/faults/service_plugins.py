"""Plugins whose hooks call services while pods are bound: a quota that is claimed, an approval, a notice, a login."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, ClassVar

from kframework import CycleState, Handle, PendingPod, Plugin, PluginArgs, Status, Wait, hookimpl
from tests.faults.fault_schedule import Fares, Ledger, Weather
from tests.faults.source_plugins import LIMITS, PATIENCE, Unspeakable, misbehave, raised


class WithService(Plugin):
    """A plugin whose hooks ask a service."""

    weather: ClassVar[Weather]
    ledger: ClassVar[Ledger]
    seed: ClassVar[str]
    #: How often it is tried in vain to start it.
    false_starts: ClassVar[list[Fares]]

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        #: What is claimed for whom, by uid.
        self.claimed: dict[str, str] = {}

    @property
    def fares(self) -> Fares:
        """How the service fares now."""
        return self.weather.at(self.handle.clock)

    def random(self, pod: PendingPod) -> Random:
        """Return a generator that is the same in a replay, where no more than the hooks of a cycle are asked."""
        return Random(f"{self.seed}/{self.name}/{pod.uid}/{self.handle.clock.now()}")

    def at_once(self, hook: str, pod: PendingPod, nonsense: object) -> Any:
        """Answer, or fail, as the service fares; it takes no time."""
        fares = self.fares
        if fares in (Fares.WELL, Fares.SLOW) or (fares is Fares.WRONG and nonsense is None):
            return None
        self.ledger.strike(self.name, hook, fares)
        if fares is Fares.WRONG:
            return nonsense
        raise raised(self.random(pod))

    async def in_time(self, hook: str, pod: PendingPod, nonsense: object) -> Any:
        """Answer, or fail, as the service fares, sooner or later; what breaks it off but a time limit is no fault."""
        random, fares, limit = self.random(pod), self.fares, LIMITS[hook]
        if fares is Fares.WELL:
            return await asyncio.sleep(random.choice([0.0, 0.1, 0.5]))
        loop, task, answer, raises = asyncio.get_running_loop(), asyncio.current_task(), None, False
        began = loop.time()
        try:
            answer = await misbehave(fares, limit, random, nonsense)
        except (Exception, asyncio.CancelledError):
            raises = task is not None and not task.cancelling()
            raise
        finally:
            if raises or answer is not None or loop.time() - began > limit - 1e-6:
                self.ledger.strike(self.name, hook, fares)
        return answer

    async def start(self) -> None:
        if self.false_starts:
            fares = self.false_starts.pop()
            self.ledger.strike(self.name, "start", fares)
            await misbehave(fares, LIMITS["start"], Random(self.seed), None)


class Quota(WithService):
    """Claims something in Reserve, by halves perhaps."""

    @hookimpl
    def reserve(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        early = self.random(pod).random() < 0.5
        if early:
            self.claimed[pod.uid] = node_name
        answer: Status | None = self.at_once("reserve", pod, self.random(pod).choice(["claimed", Unspeakable()]))
        self.claimed[pod.uid] = node_name
        return answer

    @hookimpl
    def unreserve(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        self.claimed.pop(pod.uid, None)
        self.at_once("unreserve", pod, None)


class Approval(WithService):
    """Lets pods wait until a service has approved them; one that it could not ask in time it asks for later."""

    @hookimpl
    def permit(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | Wait | None:
        if self.random(pod).random() < 0.3:
            return None
        answer: Status | None = self.at_once("permit", pod, random_nonsense(self.random(pod)))
        if answer is not None:
            return answer
        self.handle.spawn(self.ask(pod))
        return Wait(PATIENCE)

    async def ask(self, pod: PendingPod) -> None:
        """Ask until there is an answer."""
        while True:
            await asyncio.sleep(0.2)
            if self.fares is Fares.WELL:
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
    return random.choice(["yes", 7, True, Unspeakable(), Wait("long"), Wait(float("nan")), Wait(None)])  # type: ignore[arg-type]


class Preparation(WithService):
    """Prepares something before pods are bound."""

    @hookimpl
    async def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> Status | None:
        # What it answers may be of the wrong type: that is the fault.
        return await self.in_time("pre_bind", pod, self.random(pod).choice(["done", 7, Unspeakable()]))  # type: ignore[no-any-return]


class Notice(WithService):
    """Tells somebody that a pod is bound."""

    @hookimpl
    async def post_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        await self.in_time("post_bind", pod, None)


SERVICES: list[type[WithService]] = [Quota, Approval, Preparation, Preparation, Notice]


def with_service(number: int, seed: str, cured: float, ledger: Ledger) -> type[WithService]:
    """Make a plugin with a service."""
    base = SERVICES[number]
    name = f"{base.__name__}{number}"
    random = Random(f"{seed}/{name}")
    tries = random.choice([0, 0, 0, 0, 0, 1, 2])
    faults = [Fares.SLOW, Fares.DEAD, Fares.HANGING, Fares.SWALLOWING]
    return type(
        name,
        (base,),
        {
            "name": name,
            "parallel_pre_bind": random.random() < 0.6,
            "weather": Weather(random, cured, share=0.6),
            "ledger": ledger,
            "seed": seed,
            "false_starts": random.choices(faults, k=tries),
        },
    )
