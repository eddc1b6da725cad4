"""Simulations end even if a plugin rejects a pod as soon as it is tried, or if the cluster's clock is far ahead."""

from __future__ import annotations

import asyncio
import signal

import pytest
from msgspec.structs import replace

from kframework import Plugin, Wait, error, hookimpl, unschedulable
from kframework.clock import VIRTUAL_EPOCH, rfc3339
from kframework.in_memory.kubelet import RUN_SECONDS
from kframework.objects import Namespace, ObjectMeta
from kframework.simulation.records import LivelockError
from kframework.simulation.simulation import Simulation
from kframework.simulation.timetable import ARRIVES_SECONDS
from kframework.testing import make_node, make_pod
from tests.extension_points.scripted import plugin

MONTHS = 27_000_000


@pytest.mark.parametrize("seconds", [0.0, -5.0, float("nan"), 0.001])
def test_simulation_ends_however_short_permit_waits_are(seconds: float) -> None:
    with Simulation([make_node("a"), make_pod("p")], plugins=[plugin("Short", permit=Wait(seconds))]) as simulation:
        simulation.run(3600.0)
        assert simulation.outcomes[0].node is None
        assert len(simulation.decisions) < 400


class Restless(Plugin):
    """Requeues the pod that it rejects."""

    name = "Restless"

    @hookimpl
    def filter(self, state, pod, node):  # type: ignore[no-untyped-def]
        self.handle.activate([pod])
        return unschedulable("no")


def test_simulation_without_progress_ends_with_an_error_that_names_the_pod_and_the_event() -> None:
    with (
        Simulation([make_node("a"), make_pod("p")], plugins=[Restless]) as simulation,
        pytest.raises(LivelockError, match=r"pod default/p was tried 1,000 times .* ForceActivate requeued it"),
    ):
        simulation.run()


class Littering(Plugin):
    """Requeues the pod that it rejects, and creates an object each time."""

    name = "Littering"

    @hookimpl
    def filter(self, state, pod, node):  # type: ignore[no-untyped-def]
        self.handle.spawn(self.litter(len(list(self.handle.objects(Namespace)))))
        self.handle.activate([pod])
        return unschedulable("no")

    async def litter(self, number: int) -> None:
        await self.handle.api.create(Namespace(metadata=ObjectMeta(name=f"litter-{number}")))


def test_new_objects_are_no_progress() -> None:
    with Simulation([make_node("a"), make_pod("p")], plugins=[Littering]) as simulation, pytest.raises(LivelockError):
        simulation.run()


def test_simulation_of_a_dump_starts_at_the_newest_instant_in_it() -> None:
    started = VIRTUAL_EPOCH + MONTHS
    running = make_pod("runs", cpu=1, node_name="a", annotations={RUN_SECONDS: "60"})
    running = replace(running, status=replace(running.status, phase="Running", start_time=rfc3339(started)))
    with Simulation([make_node("a", cpu=1), running, make_pod("waits", cpu=1)]) as simulation:
        simulation.run()
        assert (simulation.started_at, simulation.seconds) == (started, 60.0)
        assert [each.node for each in simulation.outcomes] == ["a", "a"]


class Interrupted(Plugin):
    """Interrupts the process once, at the third pod."""

    name = "Interrupted"
    asked = 0

    @hookimpl
    def pre_filter(self, state, pod, nodes):  # type: ignore[no-untyped-def]
        self.asked += 1
        if self.asked == 3:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("interruptible")
def test_interrupt_stops_a_simulation_between_two_attempts_and_it_can_go_on() -> None:
    pods = [make_pod(f"p{number}") for number in range(6)]
    with Simulation([make_node("a"), *pods], plugins=[Interrupted]) as simulation:
        with pytest.raises(KeyboardInterrupt):
            simulation.run()
        decided = len(simulation.decisions)
        assert 3 <= decided <= 6
        simulation.run()
        assert [each.node for each in simulation.outcomes] == ["a"] * 6
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_long_pause_is_not_passed_second_by_second(monkeypatch: pytest.MonkeyPatch) -> None:
    sleep, pauses = asyncio.sleep, list[float]()

    async def note_pause(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", note_pause)
    late = make_pod("late", annotations={ARRIVES_SECONDS: "1000000"})
    with Simulation([make_node("a"), make_pod("early"), late]) as simulation:
        assert [each.node for each in simulation.run().outcomes] == ["a", "a"]
    assert len(pauses) < 10_000


def test_pod_that_is_retried_in_vain_ends_a_simulation_that_ran_for_hours_before() -> None:
    retried = plugin("Failing", pre_bind=error("no"))
    with Simulation([make_node("a"), make_pod("p")], plugins=[retried]) as simulation:
        simulation.run(36_000.0)
        assert not simulation.is_over
        assert simulation.run().result.retrying == ("default/p",)
        assert simulation.seconds < 36_000.0 + 60.0
