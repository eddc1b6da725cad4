"""A binding cycle reports how far it came, in messages, and sums up in a Binding."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest

from kframework import Code, CycleState, PendingPod, Plugin, Skip, Status, error, unschedulable
from kframework.clock import LoopClock, run_virtual
from kframework.config.configuration import HookTimeouts
from kframework.config.duration import Duration
from kframework.core.cycle.records import Binding
from kframework.core.cycle.results import Reservation
from kframework.core.runtime.timing import AttemptTrace
from kframework.framework.suspendable import run_async
from kframework.plugins.default_binder import DefaultBinder
from kframework.plugins.volume_binding import VolumeBinding
from kframework.scheduler.binding import BindingCycle
from kframework.state.inbox import BindingEnded, BindingStarted, Message
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import QueuedPod
from kframework.state.waiting import ReservedPod
from kframework.testing import make_pod
from tests.extension_points.scripted import plugin, profile

UID = make_pod().metadata.uid
Verdict = Callable[[ReservedPod], object]


class Cycle:
    """One binding cycle, with what it offered and announced."""

    def __init__(
        self,
        *plugins: type[Plugin],
        waits: float = 0.0,
        verdict: Verdict = lambda reserved: None,
        bind_first: Callable[[Reservation], Awaitable[Status | None]] | None = None,
        timed: bool = False,
        timeouts: HookTimeouts = HookTimeouts(),  # noqa: B008  # it is frozen
    ) -> None:
        self.messages: list[Message] = []
        self.announced: list[str] = []
        self.ended_at = -1.0
        self._bind_first = bind_first
        self._timed = timed
        self._timeouts = timeouts
        self.binding: Binding = run_virtual(lambda: self._run(plugins, waits, verdict))

    async def _run(self, plugins: tuple[type[Plugin], ...], waits: float, verdict: Verdict) -> Binding:
        loop = asyncio.get_running_loop()
        clock = LoopClock(loop)
        pod = PendingPod(make_pod(), TemplateInterner())
        reserved = ReservedPod(pod, "a", {"P": clock.now() + 99} if waits else {}, clock.now())
        loop.call_later(waits, verdict, reserved)
        queued = QueuedPod(pod, clock.now())
        trace = AttemptTrace(pod, 7, sample_value=0.25, is_timed=self._timed)
        reservation = Reservation(profile(*plugins), queued, CycleState(), reserved, trace)

        def announce(reservation: Reservation) -> None:
            self.announced.append(reservation.node_name)

        def offer(message: Message) -> None:
            self.messages.append(message)
            if isinstance(message, BindingEnded):
                self.ended_at = loop.time()

        return await run_async(
            BindingCycle(reservation, offer, clock, announce, self._timeouts, nothing_written, self._bind_first).steps()
        )


@pytest.mark.parametrize(
    ("scripted", "ends"),
    [
        ({}, ["wait_on_permit Success", "bind Success", "post_bind Success"]),
        ({"pre_bind_pre_flight": error("x"), "pre_bind": None}, ["pre_bind_pre_flight Error"]),
        ({"pre_bind": unschedulable("x")}, ["wait_on_permit Success", "pre_bind Unschedulable"]),
        ({"pre_bind": ValueError("x")}, ["wait_on_permit Success", "pre_bind Error"]),
        ({"bind": error("x")}, ["wait_on_permit Success", "bind Error"]),
        ({"post_bind": ValueError("x")}, ["wait_on_permit Success", "bind Success", "post_bind Success"]),
    ],
)
def test_binding_has_the_status_of_each_point(scripted: dict[str, Any], ends: list[str]) -> None:
    binding = Cycle(plugin("A", **scripted)).binding
    assert [f"{point} {code.title}" for point, _, code in binding.steps] == ends


def test_plugins_are_timed_where_that_is_wanted() -> None:
    hooks: dict[str, Any] = {"pre_bind_pre_flight": None, "pre_bind": None, "bind": Skip, "post_bind": ValueError("x")}
    cycle = Cycle(plugin("A", **hooks), timed=True)
    assert cycle.binding.sample_value == 0.25
    assert [(hook, name, code) for hook, name, _, code in cycle.binding.plugins] == [
        ("pre_bind_pre_flight", "A", Code.SUCCESS),
        ("pre_bind", "A", Code.SUCCESS),
        ("bind", "A", Code.SKIP),
        ("bind", "Binder", Code.SUCCESS),
        ("post_bind", "A", Code.ERROR),
    ]
    assert Cycle(plugin("A", **hooks)).binding.plugins == ()


def test_pod_without_work_is_bound_and_nothing_is_announced() -> None:
    cycle = Cycle()
    assert cycle.messages == [BindingStarted(UID, 7), BindingEnded(UID, 7, None)]
    assert cycle.announced == []
    binding = cycle.binding
    assert (binding.attempt, binding.pod, binding.node, binding.code) == (7, "default/pod", "a", Code.SUCCESS)
    assert (binding.message, binding.waited) == ("", 0.0)
    assert [point for point, *_ in binding.steps] == ["wait_on_permit", "bind", "post_bind"]


async def slow(state: CycleState, pod: PendingPod, node_name: str) -> None:
    await asyncio.sleep(3.0)


@pytest.mark.parametrize(
    ("plugins", "announced", "steps"),
    [
        ([plugin("A", pre_bind=slow)], ["a"], ["wait_on_permit", "pre_bind", "bind", "post_bind"]),
        (
            [plugin("A", pre_bind=slow, pre_bind_pre_flight=Skip)],
            [],
            ["pre_bind_pre_flight", "wait_on_permit", "bind", "post_bind"],
        ),
    ],
)
def test_work_that_waits_is_announced(plugins: list[type[Plugin]], announced: list[str], steps: list[str]) -> None:
    cycle = Cycle(*plugins)
    assert cycle.announced == announced
    assert [point for point, *_ in cycle.binding.steps] == steps
    assert cycle.binding.ended_at - cycle.binding.started_at == 3.0 * len(announced)


def test_work_that_is_complete_at_once_is_not_announced() -> None:
    cycle = Cycle(plugin("A", pre_bind=None))
    assert cycle.announced == []
    assert [point for point, *_ in cycle.binding.steps] == ["wait_on_permit", "pre_bind", "bind", "post_bind"]


def test_pod_that_waits_twice_is_announced_once() -> None:
    cycle = Cycle(plugin("A", pre_bind=slow), waits=5.0, verdict=lambda reserved: reserved.allow("P"))
    assert (cycle.announced, cycle.binding.waited) == (["a"], 5.0)


#: How a rejection reads in the pod's condition.
NO_FIT = "0/1 nodes are available: 1 {}."


@pytest.mark.parametrize(
    ("verdict", "status", "rejector"),
    [
        (lambda reserved: reserved.allow("P"), None, None),
        (lambda reserved: reserved.reject("P", "no"), Status(Code.UNSCHEDULABLE, (NO_FIT.format("no"),), "P"), "P"),
        (lambda reserved: reserved.reject("", "gone"), Status(Code.UNSCHEDULABLE, (NO_FIT.format("gone"),)), ""),
        (
            lambda reserved: reserved.preempt("P"),
            Status(Code.ERROR, ("waiting on permit for pod: preempted",), "P"),
            None,
        ),
    ],
)
def test_wait_ends_with_its_verdict(verdict: Verdict, status: Status | None, rejector: str | None) -> None:
    cycle = Cycle(waits=5.0, verdict=verdict)
    started: list[Message] = [BindingStarted(UID, 7)] if status is None else []
    assert cycle.messages == [*started, BindingEnded(UID, 7, status, rejector)]
    assert cycle.binding.message == ("" if status is None else status.message)
    assert cycle.announced == ["a"]
    assert cycle.binding.waited == 5.0


@pytest.mark.parametrize(
    ("failing", "started", "message"),
    [
        (plugin("A", pre_bind=None, pre_bind_pre_flight=error("x")), False, 'running PreBindPreFlight "A": x'),
        (plugin("A", pre_bind=unschedulable("x")), True, "x"),
        (plugin("A", bind=error("x")), True, 'running Bind plugin "A": x'),
    ],
)
def test_failure_is_reported_with_how_far_it_came(failing: type[Plugin], started: bool, message: str) -> None:
    cycle = Cycle(failing)
    assert any(isinstance(each, BindingStarted) for each in cycle.messages) is started
    ended = cycle.messages[-1]
    assert isinstance(ended, BindingEnded) and ended.status is not None
    assert (ended.status.message, ended.rejector) == (message, None)
    assert cycle.binding.message == message


@pytest.mark.parametrize("raised", [asyncio.CancelledError(), SystemExit(3)])
@pytest.mark.parametrize("hook", ["pre_bind_pre_flight", "pre_bind", "bind", "post_bind"])
def test_exception_that_would_end_the_scheduler_is_the_plugins_own(
    hook: str, raised: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """`result()` of a future that was cancelled raises CancelledError."""
    hooks: dict[str, Any] = {"pre_bind": None, hook: raised}
    cycle = Cycle(plugin("A", **hooks))
    assert cycle.binding.code == (Code.SUCCESS if hook == "post_bind" else Code.ERROR)
    assert f"plugin 'A' (from acme 1.0), hook {hook}: " in caplog.text


def preempted(seconds: float, *plugins: type[Plugin]) -> Cycle:
    """Let a preemptor come `seconds` after the binding cycle began."""
    return Cycle(*plugins, verdict=lambda r: asyncio.get_running_loop().call_later(seconds, r.preempt, "Default"))


@pytest.mark.parametrize("parallel", [False, True])
def test_preemptor_cancels_what_is_done_before_binding(parallel: bool) -> None:
    both = [plugin(name, pre_bind=slow, parallel=parallel) for name in "AB"]
    cycle = preempted(2.0, *both, plugin("C", pre_bind=ValueError("not reached")))
    cause = Status(Code.ERROR, ("preempted by Default",))
    assert cycle.messages == [BindingStarted(UID, 7), BindingEnded(UID, 7, cause)]
    assert cycle.ended_at == 2.0
    assert [point for point, *_ in cycle.binding.steps] == ["wait_on_permit", "pre_bind"]


def test_hook_that_failed_by_itself_keeps_its_status() -> None:
    async def stubborn(state: CycleState, pod: PendingPod, node_name: str) -> Status:
        try:
            await asyncio.sleep(3.0)
        except asyncio.CancelledError:
            return unschedulable("interrupted")
        raise AssertionError("nobody interrupted it")

    cycle = preempted(2.0, plugin("A", pre_bind=stubborn))
    assert cycle.binding.message == "interrupted"


def test_work_that_is_done_at_once_cannot_be_cancelled() -> None:
    cycle = preempted(0.0, plugin("A", pre_bind=None), plugin("B", bind=slow))
    assert cycle.messages[-1] == BindingEnded(UID, 7, None)


def test_preemptor_that_comes_while_the_pod_is_being_bound_is_too_late() -> None:
    cycle = preempted(4.0, plugin("A", pre_bind=slow), plugin("B", bind=slow))
    assert cycle.messages[-1] == BindingEnded(UID, 7, None)
    assert cycle.ended_at == 6.0


def test_binding_is_reported_before_others_take_notice_of_it() -> None:
    """The pod is bound, whatever post_bind does and however long it takes."""
    cycle = Cycle(plugin("A", post_bind=slow))
    assert cycle.messages == [BindingStarted(UID, 7), BindingEnded(UID, 7, None)]
    assert cycle.ended_at == 0.0
    assert cycle.binding.ended_at - cycle.binding.started_at == 3.0


@pytest.mark.parametrize(
    ("acting", "messages"),
    [
        (
            plugin("A", bind=slow),
            [
                BindingStarted(UID, 7),
                BindingEnded(UID, 7, error("the scheduler stopped before the pod was bound")),
            ],
        ),
        (plugin("A", post_bind=slow), [BindingStarted(UID, 7), BindingEnded(UID, 7, None)]),
    ],
)
def test_cancelled_cycle_reports_how_far_it_came(acting: type[Plugin], messages: list[Message]) -> None:
    offered: list[Message] = []

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        pod = PendingPod(make_pod(), TemplateInterner())
        reserved = ReservedPod(pod, "a", {}, clock.now())
        queued, trace = QueuedPod(pod, clock.now()), AttemptTrace(pod, 7)
        reservation = Reservation(profile(acting), queued, CycleState(), reserved, trace)
        cycle = BindingCycle(reservation, offered.append, clock, announced_to_nobody, HookTimeouts(), nothing_written)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(run_async(cycle.steps()), 1.0)

    run_virtual(main)
    assert offered == messages


async def nothing_written(keys: Iterable[str]) -> None:
    return


def announced_to_nobody(reservation: Reservation) -> None:
    return


@pytest.mark.parametrize(
    ("first", "asked", "status"),
    [
        (Skip, ["B.bind"], None),
        (None, [], None),
        (error("refused"), [], error("refused")),
    ],
)
def test_extenders_bind_before_the_plugins(first: Status | None, asked: list[str], status: Status | None) -> None:
    journal: list[str] = []
    reservations: list[str] = []

    async def bind_first(reservation: Reservation) -> Status | None:
        reservations.append(reservation.node_name)
        return first

    cycle = Cycle(plugin("B", bind=None, journal=journal), bind_first=bind_first)
    assert cycle.messages == [BindingStarted(UID, 7), BindingEnded(UID, 7, status)]
    assert (reservations, journal) == (["a"], asked)


async def never(state: CycleState, pod: PendingPod, node_name: str) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("hook", "seconds", "message"),
    [
        (
            "pre_bind",
            600,
            "plugin 'Quota' (from acme 1.0), hook pre_bind: timed out after 600 s (hookTimeouts.preBind)",
        ),
        ("bind", 60, "plugin 'Quota' (from acme 1.0), hook bind: timed out after 60 s (hookTimeouts.bind)"),
    ],
)
def test_hook_that_takes_too_long_fails_the_binding(hook: str, seconds: float, message: str) -> None:
    hooks: dict[str, Any] = {hook: never}
    cycle = Cycle(plugin("Quota", **hooks))
    assert cycle.ended_at == seconds
    assert (cycle.binding.code, cycle.binding.message) == (Code.ERROR, message)


def test_post_bind_that_takes_too_long_is_blamed_and_the_pod_is_bound(caplog: pytest.LogCaptureFixture) -> None:
    cycle = Cycle(plugin("Quota", post_bind=never))
    assert cycle.binding.code is Code.SUCCESS
    assert cycle.binding.ended_at - cycle.binding.started_at == 30.0
    assert "'Quota' (from acme 1.0), hook post_bind: timed out after 30 s (hookTimeouts.postBind)" in caplog.text


def test_configuration_limits_the_time_of_hooks() -> None:
    timeouts = HookTimeouts(pre_bind=Duration(7))
    assert Cycle(plugin("Quota", pre_bind=never), timeouts=timeouts).ended_at == 7.0


def test_plugin_that_keeps_time_itself_is_not_cut_off() -> None:
    async def patient(state: CycleState, pod: PendingPod, node_name: str) -> None:
        await asyncio.sleep(3600.0)

    keeping = plugin("Volumes", pre_bind=patient)
    keeping.own_timeouts = frozenset({"pre_bind"})
    cycle = Cycle(keeping)
    assert (cycle.ended_at, cycle.binding.code) == (3600.0, Code.SUCCESS)


@pytest.mark.parametrize(("kind", "hook"), [(VolumeBinding, "pre_bind"), (DefaultBinder, "bind")])
def test_binders_declare_their_own_timeouts(kind: type[Plugin], hook: str) -> None:
    assert kind.own_timeouts == {hook}


def test_wait_of_a_binding_is_described() -> None:
    places: list[str] = []

    def look(reserved: ReservedPod) -> None:
        loop = asyncio.get_running_loop()
        clock = LoopClock(loop)
        places.append(reserved.describe_wait(clock.now() + 2.0))
        reserved.allow("P")
        for moment in (1.0, 4.0, 8.0):
            loop.call_later(moment, lambda: places.append(reserved.describe_wait(clock.now())))

    async def longer(state: CycleState, pod: PendingPod, node_name: str) -> None:
        await asyncio.sleep(6.0)

    async def binds(state: CycleState, pod: PendingPod, node_name: str) -> None:
        await asyncio.sleep(3.0)

    plugins = plugin("A", pre_bind=slow, parallel=True), plugin("B", pre_bind=longer, parallel=True)
    cycle = Cycle(*plugins, plugin("C", bind=binds), waits=5.0, verdict=look)
    assert places == [
        "waiting on P.permit for 7 s",
        "in A.pre_bind for 1 s, in B.pre_bind for 1 s",
        "in B.pre_bind for 4 s",
        "in C.bind for 2 s",
    ]
    assert cycle.binding.code is Code.SUCCESS
