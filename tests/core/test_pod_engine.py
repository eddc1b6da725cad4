"""The engine: messages in, one pod at a time, and what is to be done outside out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar, cast

import pytest

from kframework import (
    ActionType,
    ClusterEvent,
    CycleState,
    EventResource,
    Handle,
    NodeInfo,
    PendingPod,
    Plugin,
    PodInfo,
    Preempt,
    Simulation,
    Wait,
    error,
    hookimpl,
    unschedulable,
)
from kframework.clock import VIRTUAL_EPOCH
from kframework.core.cycle.records import Decision, Result
from kframework.core.cycle.results import Eviction, Reservation
from kframework.core.host import Host, PodEvent
from kframework.core.plugin_handle import PluginHandle
from kframework.core.pod_engine import PodEngine
from kframework.core.runtime.profiles import Profiles
from kframework.framework.answers import Candidate
from kframework.objects import ApiObject, PodCondition
from kframework.state.cluster import ClusterState
from kframework.state.inbox import (
    ActivateRequested,
    AnswersInvalidated,
    BindingEnded,
    BindingStarted,
    Deleted,
    LastVictimReached,
    Nominated,
    PreemptionEnded,
    Synced,
    Upserted,
)
from kframework.testing import make_node, make_pod
from kframework.values.status import Code, Status
from tests.extension_points.scripted import held, plugin, profile

POD = make_pod()
UID = POD.metadata.uid


class Stage(Host):
    """An engine on a clock that does not move, whose effects are only recorded."""

    def __init__(self, *plugins: type[Plugin], objects: Iterable[ApiObject] = (), verifying: bool = True) -> None:
        self.time = VIRTUAL_EPOCH
        self.bound: list[Reservation] = []
        self.patches: list[tuple[str, str | None, str | None]] = []
        self.events: list[str] = []
        self.evictions: list[Eviction] = []
        self.decisions: list[Decision] = []
        compiled = profile(*plugins)
        profiles = Profiles({"default-scheduler": compiled})
        self.engine = PodEngine(ClusterState(), self, self, lambda engine: profiles, verifying=verifying)
        for each in compiled.plugins.values():
            each.handle = cast("Handle", PluginHandle(self.engine, None, "default-scheduler", each.name))  # type: ignore[arg-type]  # nothing outside
        for obj in objects:
            self.engine.offer(Upserted(obj))
        self.engine.offer(Synced())

    def now(self) -> float:
        return self.time

    def bind(self, reservation: Reservation) -> None:
        self.bound.append(reservation)

    def patch_status(self, pod: PodInfo, condition: PodCondition | None, nominated_node_name: str | None) -> None:
        self.patches.append((pod.name, condition.message if condition else None, nominated_node_name))

    def record(self, event: PodEvent) -> None:
        self.events.append(f"{event.reason} {event.pod.name}: {event.note}")

    def evict(self, eviction: Eviction) -> None:
        self.evictions.append(eviction)

    def report_decision(self, decision: Decision) -> None:
        self.decisions.append(decision)

    def steps(self) -> int:
        """Step until there is no pod; return how many there were."""
        count = 0
        while self.engine.step():
            count += 1
        return count


def test_no_pod_is_scheduled_before_the_initial_lists_are_complete() -> None:
    stage = Stage()
    engine = PodEngine(ClusterState(), stage, stage, lambda engine: Profiles({"default-scheduler": profile()}))
    engine.offer(Upserted(POD))
    assert not engine.step() and not engine.is_idle
    engine.offer(Synced())
    assert engine.step()


def test_step_applies_all_messages_and_schedules_one_pod() -> None:
    stage = Stage(objects=[make_node("a"), make_pod("x"), make_pod("y")])
    assert stage.engine.step()
    assert len(stage.engine.inbox) == 0
    assert [decision.pod for decision in stage.decisions] == ["default/x"]
    assert stage.engine.step() and not stage.engine.step()
    assert [reservation.node_name for reservation in stage.bound] == ["a", "a"]
    assert [reservation.attempt for reservation in stage.bound] == [1, 2]


def test_decision_records_the_attempt() -> None:
    stage = Stage(plugin("A", score=lambda state, pod, node: 7 if node.name == "b" else 3), objects=[POD])
    for name in "abc":
        stage.engine.offer(Upserted(make_node(name)))
    stage.time += 5
    stage.steps()
    (decision,) = stage.decisions
    assert (decision.attempt, decision.pod_attempts, decision.pod, decision.uid) == (1, 1, "default/pod", UID)
    assert (decision.profile, decision.result, decision.code) == ("default-scheduler", Result.SCHEDULED, Code.SUCCESS)
    assert (decision.node, decision.score, decision.ties) == ("b", 7, 1)
    assert (decision.nodes, decision.evaluated, decision.feasible) == (3, 3, 3)
    assert decision.best_nodes[0] == ("b", 7)
    assert (decision.queued_at, decision.popped_at) == (VIRTUAL_EPOCH + 5, VIRTUAL_EPOCH + 5)
    assert {"pre_filter", "filter", "score", "reserve", "permit"} <= {point for point, *_ in decision.timings}


def test_rejection_has_one_message_in_status_event_and_decision() -> None:
    stage = Stage(plugin("A", filter=unschedulable("no")), objects=[make_node("a"), POD])
    stage.steps()
    text = "0/1 nodes are available: 1 no."
    (decision,) = stage.decisions
    assert (decision.result, decision.message, decision.reasons) == (Result.UNSCHEDULABLE, text, {"no": 1})
    assert (decision.rejectors, decision.pending, decision.nominated) == (("A",), (), "")
    assert stage.patches == [("pod", text, "")]
    assert stage.events == [f"FailedScheduling pod: {text}"]


def bound_stage(*plugins: type[Plugin]) -> Stage:
    stage = Stage(*plugins, objects=[make_node("a"), POD])
    stage.steps()
    return stage


def test_engine_is_not_idle_until_the_binding_ends() -> None:
    stage = bound_stage()
    assert not stage.engine.is_idle
    stage.engine.offer(BindingStarted(UID, 1))
    stage.engine.offer(BindingEnded(UID, 1, None))
    stage.steps()
    assert stage.engine.is_idle
    assert stage.events == ["Scheduled pod: Successfully assigned default/pod to a"]
    assert stage.engine.cluster.assumed == {UID}, "until the API confirms it"


def test_end_of_another_attempt_is_ignored() -> None:
    stage = bound_stage()
    stage.engine.offer(BindingEnded(UID, 9, Status(Code.ERROR, ("late",))))
    stage.engine.offer(BindingEnded("unknown", 1, None))
    stage.steps()
    assert stage.engine.cluster.assumed == {UID} and stage.events == []


@pytest.mark.parametrize(
    ("status", "rejector", "place", "text"),
    [
        (Status(Code.ERROR, ("broken",), "B"), None, "backoff", "broken"),
        (Status(Code.UNSCHEDULABLE, ("no",), "B"), None, "backoff", "no"),
        (Status(Code.UNSCHEDULABLE, ("no",), "P"), "P", "unschedulable", "no"),
        (Status(Code.SKIP), None, "backoff", None),
    ],
)
def test_failed_binding_is_undone_by_one_message(
    status: Status, rejector: str | None, place: str, text: str | None
) -> None:
    journal: list[str] = []
    stage = bound_stage(plugin("A", unreserve=None, journal=journal))
    if rejector is None:
        stage.engine.offer(BindingStarted(UID, 1))
    stage.engine.offer(BindingEnded(UID, 1, status, rejector))
    assert not stage.engine.step()
    assert journal == ["A.unreserve"]
    assert not stage.engine.cluster.pods and len(stage.engine.cluster.waiting) == 0
    assert stage.engine.queue.count_by_queue()[place] == 1
    assert stage.patches == ([] if text is None else [("pod", text, "")])
    assert len(stage.engine.queue.in_flight) == 0


@pytest.mark.parametrize("gone", [Deleted(POD), Upserted(make_pod(node_name="b"))])
def test_failed_binding_of_a_deleted_or_bound_pod_requeues_nothing(gone: Deleted | Upserted) -> None:
    stage = bound_stage()
    stage.engine.offer(gone)
    stage.engine.offer(BindingEnded(UID, 1, Status(Code.ERROR, ("late",))))
    stage.steps()
    assert len(stage.engine.queue) == 0 and len(stage.engine.queue.in_flight) == 0
    assert not stage.engine.handlers.pending
    assert len(stage.decisions) == 1


@pytest.mark.parametrize(
    ("meanwhile", "woken"),
    [(Upserted(make_pod(node_name="a")), 0), (Upserted(make_pod(node_name="b")), 0), (Deleted(POD), 1)],
)
def test_failed_binding_frees_nothing_if_the_pod_is_bound(meanwhile: Deleted | Upserted, woken: int) -> None:
    """The answer to a binding may be lost: the pod stays where it is, and its end need not be reported."""
    woken_by = [ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)]
    sleepy = plugin("S", filter=lambda state, pod, node: unschedulable("no") if pod.name == "sleeper" else None)
    # By setattr, since to mypy the hook is a method of the class.
    setattr(sleepy, "events_to_register", hookimpl(lambda self: woken_by))  # noqa: B010
    stage = bound_stage(sleepy)
    stage.engine.offer(meanwhile)
    stage.engine.offer(Upserted(make_pod("sleeper")))
    stage.steps()
    attempts = len(stage.decisions)
    stage.engine.offer(BindingEnded(UID, 1, Status(Code.ERROR, ("timed out",))))
    stage.steps()
    assert len(stage.decisions) - attempts == woken


VICTIM = make_pod("victim", node_name="a")
GOING = make_pod("victim", node_name="a", deletion_timestamp="2026-01-01T00:00:00Z")


def preempting_stage() -> Stage:
    """Let the pod find that the victim must go; it is held back as long as that is under way."""

    def pre_enqueue(pod: PendingPod) -> Status | None:
        waits = held(finds).preemption.in_progress(pod)
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("waits",)) if waits else None

    def post_filter(state: object, pod: PendingPod, diagnosis: object) -> Preempt:
        return Preempt((Candidate("a", (stage.engine.cluster.pods[VICTIM.metadata.uid],)),), lambda candidate: 0)

    finds = plugin("Finds", filter=unschedulable("full"), post_filter=post_filter, pre_enqueue=pre_enqueue)
    stage = Stage(finds, objects=[make_node("a"), VICTIM, POD])
    stage.engine.step()
    return stage


def test_victims_are_evicted_through_the_host() -> None:
    stage = preempting_stage()
    (eviction,) = stage.evictions
    assert (eviction.attempt, eviction.profile, eviction.plugin) == (1, "default-scheduler", "Finds")
    assert (eviction.preemptor.uid, eviction.node_name, eviction.lower_priority) == (UID, "a", ())
    assert [victim.name for victim in eviction.victims] == ["victim"]
    assert not stage.engine.is_idle
    stage.engine.offer(PreemptionEnded(UID, 1, failed=False))
    stage.steps()
    assert stage.engine.is_idle and len(stage.decisions) == 1
    assert stage.engine.cluster.nominator.nominated_node(UID) == "a"


def test_preemptor_waits_until_its_last_victim_terminates() -> None:
    stage = preempting_stage()
    pod = stage.engine.handlers.pending[UID]
    seen = []
    for message in (
        LastVictimReached(UID, 1, VICTIM.metadata.uid),
        Upserted(GOING),
        PreemptionEnded(UID, 1, failed=False),
    ):
        seen.append(stage.engine.preemption.in_progress(pod))
        stage.engine.offer(message)
        stage.steps()
    assert [*seen, stage.engine.preemption.in_progress(pod)] == [True, True, False, False]


def test_preemptor_is_retried_if_its_victims_stay() -> None:
    stage = preempting_stage()
    stage.engine.offer(PreemptionEnded(UID, 1, failed=True))
    stage.steps()
    assert [decision.attempt for decision in stage.decisions] == [1, 2]
    stage.engine.offer(PreemptionEnded(UID, 1, failed=True))
    stage.steps()
    assert len(stage.decisions) == 2, "that was said of an older preemption"


def test_events_during_preemption_requeue_the_preemptor_at_its_end() -> None:
    stage = preempting_stage()
    stage.engine.queue.activate(UID)
    assert stage.engine.queue.count_by_queue()["gated"] == 1
    stage.engine.offer(PreemptionEnded(UID, 1, failed=False))
    stage.steps()
    assert len(stage.decisions) == 2


def test_end_of_a_preemption_by_a_deleted_pod_requeues_nothing() -> None:
    stage = preempting_stage()
    for message in (Deleted(POD), PreemptionEnded(UID, 1, failed=True)):
        stage.engine.offer(message)
    stage.steps()
    assert len(stage.decisions) == 1 and stage.engine.is_idle


def test_unwritten_nomination_is_kept_if_the_next_result_is_silent() -> None:
    stage = Stage(plugin("A", filter=unschedulable("no"), post_filter=None), objects=[make_node("a"), POD])
    for message in stage.engine.inbox.drain():
        stage.engine._apply(message)
    stage.engine.offer(Nominated(UID, "a"))
    stage.steps()
    assert stage.decisions[0].nominated is None
    assert stage.engine.cluster.nominator.nominated_node(UID) == "a"


def test_assumed_pod_cannot_be_nominated() -> None:
    stage = bound_stage()
    stage.engine.offer(Nominated(UID, "a"))
    stage.steps()
    assert len(stage.engine.cluster.nominator) == 0


def test_idle_engine_has_no_deadline() -> None:
    assert Stage(objects=[make_node("a")]).engine.deadline is None


@pytest.mark.parametrize(
    ("failing", "due"),
    [
        (plugin("A", filter=error("x")), 2.0),
        (plugin("A", filter=unschedulable("x")), 330.0),
        (plugin("A", permit=Wait(7)), 7.0),
    ],
)
def test_deadline_is_the_earliest_timer(failing: type[Plugin], due: float) -> None:
    stage = bound_stage(failing)
    assert stage.engine.deadline == VIRTUAL_EPOCH + due


def test_permit_timeout_rejects_on_time() -> None:
    stage = bound_stage(plugin("A", permit=Wait(7)))
    (reservation,) = stage.bound
    stage.time += 6.9
    stage.steps()
    assert reservation.reserved.verdict is None
    stage.time += 0.1
    stage.steps()
    verdict = reservation.reserved.verdict
    assert verdict is not None
    assert (verdict.plugin, verdict.message) == ("A", "rejected due to timeout after waiting 7s at plugin A")
    assert stage.engine.deadline is None


def waiting(ask: Callable[[PluginHandle, PendingPod], None]) -> Stage:
    """Reject `sleeper`; when `pod` comes by, ask."""

    def reserve(state: object, pod: PendingPod, node_name: str) -> None:
        if pod.name == "pod":
            handle = cast("PluginHandle", asking.instance.handle)  # type: ignore[attr-defined]  # every scripted one has it
            ask(handle, stage.engine.handlers.pending[make_pod("sleeper").metadata.uid])
            stage.seen = (stage.engine.queue.count_by_queue(), len(stage.engine.inbox))  # type: ignore[attr-defined]  # noted

    sleepy = plugin("S", filter=lambda state, pod, node: unschedulable("no") if pod.name == "sleeper" else None)
    asking = plugin("A", reserve=reserve)
    stage = Stage(sleepy, asking, objects=[make_node("a"), make_pod("sleeper", priority=5), POD])
    stage.engine.step()
    stage.engine.step()
    return stage


def test_requests_of_a_hook_are_applied_when_its_cycle_ends() -> None:
    stage = waiting(lambda handle, pod: handle.activate([pod]))
    pending, inbox = stage.seen  # type: ignore[attr-defined]  # noted
    assert (pending["unschedulable"], inbox) == (1, 0), "not at once, and not through the inbox"
    assert stage.engine.queue.count_by_queue()["active"] == 1


def test_nomination_of_a_hook_takes_effect_when_its_cycle_ends() -> None:
    stage = waiting(lambda handle, pod: handle.nominate(pod, "a"))
    assert stage.engine.cluster.nominator.nominated_node(make_pod("sleeper").metadata.uid) == "a"


def test_request_between_two_cycles_is_a_message() -> None:
    stage = waiting(lambda handle, pod: None)
    stage.engine.request(ActivateRequested((make_pod("sleeper").metadata.uid, "unknown")))
    stage.engine.request(Nominated("unknown", "a"))
    assert len(stage.engine.inbox) == 2
    stage.engine.step()
    assert len(stage.decisions) == 3


@pytest.mark.parametrize(("names", "asked"), [((), 4), (("a",), 3), (("gone",), 2)])
def test_invalidated_nodes_are_filtered_again(names: tuple[str, ...], asked: int) -> None:
    questions: list[str] = []
    noting = plugin("A", filter=lambda state, pod, node: questions.append(node.name), reads="node", sign=1)
    scoring = plugin("S", score=1)
    objects = [make_node("a"), make_node("b"), POD, make_pod("other")]
    stage = Stage(noting, scoring, objects=objects, verifying=False)
    stage.engine.step()
    stage.engine.offer(AnswersInvalidated(names))
    stage.engine.step()
    assert len(questions) == asked


def test_pod_that_is_already_assigned_is_skipped() -> None:
    stage = Stage(objects=[make_node("a"), POD])
    for message in stage.engine.inbox.drain():
        stage.engine._apply(message)
    assumed = PendingPod(POD, stage.engine.cluster.interner)
    stage.engine.cluster.assume(assumed, "a")
    assert stage.engine.step()
    assert stage.decisions == [] and len(stage.engine.queue.in_flight) == 0


def test_terminating_pod_is_skipped_with_an_event() -> None:
    stage = Stage(objects=[make_node("a"), make_pod(deletion_timestamp="2026-01-01T00:00:00Z")])
    stage.steps()
    assert stage.events == ["FailedScheduling pod: skip schedule deleting pod: default/pod"]
    assert stage.decisions == [] and stage.engine.is_idle


class Leaking(Plugin):
    """Leaves a what-if open for one pod that is not the first of its run."""

    name = "Leaking"
    reads = "pods"
    sign_reads = ()
    opened: ClassVar[list[str]] = []

    @hookimpl
    def sign(self, pod: PendingPod) -> str:
        return ""

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> None:
        if pod.name == "p4" and not self.opened:
            self.opened.append(pod.name)
            self.handle.statement().__enter__().add(pod, node.name)


def test_open_what_if_of_a_plugin_is_rolled_back_before_the_pod_is_assumed() -> None:
    Leaking.opened.clear()
    nodes, pods = [make_node(name, cpu=2) for name in "abcd"], [make_pod(f"p{n}", cpu="250m") for n in range(8)]
    simulation = Simulation([*nodes, *pods], plugins=[Leaking]).run()
    assert not simulation.scheduler.engine.cluster.statements
    assert [each.node is not None for each in simulation.outcomes] == [True] * 8
    taken = sum(node.requested("cpu") for node in simulation.scheduler.engine.cluster.nodes)
    assert taken == 8 * 250
