"""PreBindPreFlight and PreBind: work before the binding, side by side where plugins allow it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from kframework import Code, CycleState, PendingPod, Skip, Status, Wait, error, unresolvable, unschedulable
from kframework.in_memory.cluster import MemoryCluster
from kframework.testing import make_pod
from kframework.testing.scenario import ScenarioResult, delete
from tests.extension_points.scripted import held, plugin, run, scenario

SUPPORTED = "It is supposed to return Success, Skip, or Error status"

Work = Callable[[CycleState, PendingPod, str], Awaitable[object]]


def taking(seconds: float, answer: object = None, log: list[str] | None = None, name: str = "") -> Work:
    """Work so long, then answer; note in the log how it went."""

    async def work(state: CycleState, pod: PendingPod, node_name: str) -> object:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            if log is not None:
                log.append(f"{name} cancelled")
            raise
        if log is not None:
            log.append(f"{name} done")
        if isinstance(answer, Exception):
            raise answer
        return answer

    return work


def failed(result: ScenarioResult, reason: str, message: str) -> None:
    condition = result.condition_of("pod")
    assert condition is not None
    assert (condition.reason, condition.message) == (reason, message)
    assert result.events_on("pod")[0] == ("FailedScheduling", message)
    assert result.state_of("pod") == "backoff", "no rejector is recorded any more"
    assert result.queued("pod").rejectors == frozenset()
    assert result.queued("pod").consecutive_errors == 1
    assert result.pod("pod").status.nominated_node_name == ""


@pytest.mark.parametrize("answer", [None, Status(Code.SUCCESS), taking(0.0), taking(0.2, Status(Code.SUCCESS))])
def test_pod_is_bound_after_pre_bind_succeeds(answer: object) -> None:
    assert run(plugin("A", pre_bind=answer)).state_of("pod") == "bound"


@pytest.mark.parametrize(
    ("answer", "reason", "message"),
    [
        (unschedulable("no volume"), "Unschedulable", "no volume"),
        (unresolvable("no volume"), "Unschedulable", "no volume"),
        (Status(Code.PENDING, ("no volume",)), "Unschedulable", "no volume"),
        (error("broken"), "SchedulerError", 'running PreBind plugin "B": broken'),
        (Skip, "SchedulerError", 'running PreBind plugin "B": Skip'),
        (ValueError("broken"), "SchedulerError", "plugin 'B', hook pre_bind: ValueError: broken"),
        (taking(0.2, unschedulable("no volume")), "Unschedulable", "no volume"),
        (taking(0.2, ValueError("broken")), "SchedulerError", "plugin 'B', hook pre_bind: ValueError: broken"),
        (3, "SchedulerError", "plugin 'B', hook pre_bind: answered 3, which is not a Status"),
    ],
)
def test_failing_pre_bind_undoes_the_reservation(answer: object, reason: str, message: str) -> None:
    journal: list[str] = []
    plugins = [
        plugin("A", reserve=None, unreserve=None, pre_bind=None, journal=journal),
        plugin("B", unreserve=None, pre_bind=answer, journal=journal),
        plugin("C", pre_bind=None, bind=None, post_bind=None, journal=journal),
    ]
    result = run(*plugins)
    assert journal == ["A.reserve", "A.pre_bind", "B.pre_bind", "B.unreserve", "A.unreserve"]
    failed(result, reason, message)
    assert list(held(plugins[0]).pods) == []


def test_nominated_node_name_is_written_while_pre_bind_runs() -> None:
    result = scenario(plugin("A", pre_bind=taking(5.0))).run(until=1.0)
    assert result.pod("pod").status.nominated_node_name == "a"
    assert result.state_of("pod") == "neither"


def test_other_pods_are_scheduled_while_pre_bind_runs() -> None:
    slow = plugin("A", pre_bind=lambda state, pod, name: taking(5.0)(state, pod, name) if pod.name == "pod" else None)
    result = scenario(slow, pods=("pod", "other")).run(until=1.0)
    assert (result.state_of("pod"), result.state_of("other")) == ("neither", "bound")


def test_pre_bind_is_not_called_without_work() -> None:
    journal: list[str] = []
    writes: list[str] = []

    def watch(cluster: MemoryCluster) -> None:
        cluster.faults.append(lambda method, *_: writes.append(method))

    idle = plugin("A", pre_bind_pre_flight=Skip, pre_bind=error("not asked"), journal=journal)
    result = scenario(idle).at(0.0, watch).run()
    assert result.state_of("pod") == "bound"
    assert journal == ["A.pre_bind_pre_flight"]
    assert "patch_pod_status" not in writes


def test_pre_bind_is_called_only_for_plugins_with_work() -> None:
    journal: list[str] = []
    plugins = [
        plugin("A", pre_bind_pre_flight=Skip, pre_bind=None, journal=journal),
        plugin("B", pre_bind_pre_flight=None, pre_bind=None, journal=journal),
        plugin("C", pre_bind_pre_flight=Status(Code.SUCCESS), pre_bind=None, journal=journal),
        plugin("D", pre_bind=None, journal=journal),
    ]
    assert run(*plugins).state_of("pod") == "bound"
    assert [entry for entry in journal if entry.endswith(".pre_bind")] == ["B.pre_bind", "C.pre_bind", "D.pre_bind"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (error("broken"), 'running PreBindPreFlight "B": broken'),
        (ValueError("broken"), "plugin 'B', hook pre_bind_pre_flight: ValueError: broken"),
        *(
            (
                Status(code),
                f'PreBindPreFlight B returned "{code.title}", which is unsupported. {SUPPORTED}',
            )
            for code in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.WAIT, Code.PENDING)
        ),
    ],
)
def test_invalid_pre_flight_answer_fails_the_binding(answer: object, message: str) -> None:
    journal: list[str] = []
    plugins = [
        plugin("A", pre_bind=None, unreserve=None, journal=journal),
        plugin("B", pre_bind_pre_flight=answer, pre_bind=None, unreserve=None, journal=journal),
    ]
    result = run(*plugins)
    assert journal == ["B.pre_bind_pre_flight", "B.unreserve", "A.unreserve"]
    failed(result, "SchedulerError", message)


def test_failing_pre_flight_ends_the_permit_wait() -> None:
    both = plugin("A", permit=Wait(5), pre_bind_pre_flight=error("broken"), pre_bind=None)
    result = run(both)
    failed(result, "SchedulerError", 'running PreBindPreFlight "A": broken')
    assert list(held(both).waiting_pods()) == []


@pytest.mark.parametrize(
    ("kinds", "seconds"),
    [
        ("ppp", 1.0),
        ("sss", 3.0),
        ("psp", 3.0),
        ("spp", 2.0),
        ("pps", 2.0),
        ("ppspp", 3.0),
        ("pSp", 2.0),  # a barrier even when it has nothing to do
        ("pPp", 1.0),
        ("P", 0.0),
    ],
)
def test_parallel_pre_bind_plugins_run_concurrently(kinds: str, seconds: float) -> None:
    """One letter per plugin: p may share, s may not, a capital has nothing to do."""
    plugins = [
        plugin(
            f"P{number}",
            parallel=kind in "pP",
            pre_bind=taking(1.0),
            pre_bind_pre_flight=Skip if kind.isupper() else None,
        )
        for number, kind in enumerate(kinds)
    ]
    result = scenario(*plugins).run()
    assert result.state_of("pod") == "bound"
    assert result.seconds == seconds


def test_first_failure_of_parallel_pre_bind_cancels_the_others() -> None:
    log: list[str] = []
    plugins = [
        plugin("A", parallel=True, pre_bind=taking(0.3, None, log, "A")),
        plugin("B", parallel=True, pre_bind=taking(0.1, unschedulable("no volume"), log, "B")),
        plugin("C", parallel=True, pre_bind=taking(0.2, error("later"), log, "C")),
        plugin("D", pre_bind=taking(0.0, None, log, "D")),
    ]
    result = run(*plugins)
    assert log[0] == "B done"
    assert sorted(log) == ["A cancelled", "B done", "C cancelled"]
    failed(result, "Unschedulable", "no volume")


def test_pod_deleted_during_pre_bind_frees_its_room_at_once() -> None:
    slow = plugin("A", pre_bind=lambda state, pod, name: taking(9.0)(state, pod, name) if pod.name == "pod" else None)
    lonely = plugin(
        "L", filter=lambda state, pod, node: unschedulable("taken") if len(node.pods) else None, events=None
    )
    result = scenario(slow, lonely, pods=("pod", "other")).at(4.0, delete(make_pod())).run()
    assert result.node_of("other") == "a"
    assert result.bindings[0].node == "a" and result.bindings[0].pod == "default/other"
    assert result.bindings[1].code == Code.ERROR, "there is no pod to bind any more"
    assert result.waiting == {}
