"""Reserved pods: the first verdict wins."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod
from kframework.state.waiting import ReservedPod, WaitingPods
from kframework.values.status import Code, Status
from tests.support.objects import pod


def reserved(uid: str = "p", **deadlines: float) -> ReservedPod:
    """Reserve a pod for which plugins wait until these times."""
    return ReservedPod(PendingPod(pod(uid), TemplateInterner()), "a", dict(deadlines), since=0.0)


VERDICTS: list[tuple[Callable[[ReservedPod], bool], Status]] = [
    (lambda waiting: waiting.allow("Quota"), Status(Code.SUCCESS)),
    (lambda waiting: waiting.reject("Quota", "too much"), Status(Code.UNSCHEDULABLE, ("too much",), "Quota")),
    (lambda waiting: waiting.preempt("Default"), Status(Code.ERROR, ("preempted",), "Default")),
]


@pytest.mark.parametrize(("first", "verdict"), VERDICTS)
@pytest.mark.parametrize("second", [second for second, _ in VERDICTS])
def test_first_verdict_wins(
    first: Callable[[ReservedPod], bool], verdict: Status, second: Callable[[ReservedPod], bool]
) -> None:
    waiting, told = reserved(Quota=9.0), list[Status | None]()
    waiting.on_verdict(lambda: told.append(waiting.verdict))
    assert first(waiting)
    assert not second(waiting)
    assert waiting.verdict == verdict
    assert told == [verdict]


def test_all_plugins_must_allow() -> None:
    waiting = reserved(Quota=9.0, Gang=5.0)
    seen = [(waiting.verdict, waiting.pending_plugins, waiting.deadline)]
    for plugin in ("Gang", "Gang", "Quota"):
        assert waiting.allow(plugin)
        seen.append((waiting.verdict, waiting.pending_plugins, waiting.deadline))
    assert seen == [
        (None, ("Quota", "Gang"), 5.0),
        (None, ("Quota",), 9.0),
        (None, ("Quota",), 9.0),
        (Status(Code.SUCCESS), (), None),
    ]


def test_every_deciding_verdict_is_reported() -> None:
    waiting, heard = reserved(Quota=9.0, Gang=5.0), list[tuple[str, Status | None]]()
    waiting.on_change = lambda plugin, verdict: heard.append((plugin, verdict))
    assert waiting.allow("Gang") and waiting.reject("Quota", "no") and not waiting.allow("Quota")
    assert heard == [("Gang", None), ("", Status(Code.UNSCHEDULABLE, ("no",), "Quota"))]


def test_verdict_may_be_given_as_it_is() -> None:
    waiting, verdict = reserved(Quota=9.0), Status(Code.ERROR, ("preempted",), "Default")
    assert waiting.decide(verdict) and not waiting.decide(Status(Code.SUCCESS))
    assert waiting.verdict == verdict


def test_pod_without_waiting_plugins_continues_at_once() -> None:
    waiting, told = reserved(), list[str]()
    assert waiting.verdict == Status(Code.SUCCESS)
    waiting.on_verdict(lambda: told.append("now"))
    assert told == ["now"]
    assert not waiting.reject("Quota", "late")


def test_late_caller_gets_the_verdict_at_once() -> None:
    waiting, told = reserved(Quota=9.0), list[str]()
    waiting.reject("Quota", "no")
    waiting.on_verdict(lambda: told.append("now"))
    assert told == ["now"]


def test_reserved_pods_are_kept_until_removed() -> None:
    pods, one, other = WaitingPods(), reserved("p", Quota=9.0), reserved("q", Quota=5.0)
    pods.add(one)
    pods.add(other)
    assert (pods.get("p"), pods.get("nobody"), len(pods)) == (one, None, 2)
    assert list(pods.awaiting_permit()) == [one, other]
    other.allow("Quota")
    assert list(pods.awaiting_permit()) == [one]
    assert pods.get("q") is other
    pods.remove("p")
    pods.remove("p")
    assert len(pods) == 1


def test_earliest_deadline_of_the_undecided_counts() -> None:
    pods, deadlines = WaitingPods(), list[float | None]()
    for waiting in (reserved("p", Quota=9.0), reserved("q", Quota=5.0, Gang=7.0), reserved("r")):
        pods.add(waiting)
    for uid in ("r", "q", "p"):
        deadlines.append(pods.deadline)
        decided = pods.get(uid)
        assert decided is not None
        decided.reject("Quota", "no")
    assert [*deadlines, pods.deadline] == [5.0, 5.0, 9.0, None]


def test_verdict_may_be_given_while_the_waiting_are_listed() -> None:
    pods = WaitingPods()
    for uid in "pqr":
        pods.add(reserved(uid, Gang=1.0))
    for waiting in pods.awaiting_permit():
        waiting.allow("Gang")
        pods.remove(waiting.pod.uid)
    assert len(pods) == 0


def test_reserved_pod_shows_what_it_waits_for() -> None:
    waiting = reserved(Quota=9.0, Gang=5.0)
    assert repr(waiting) == "<ReservedPod default/p on a: waits for Quota, Gang>"
    waiting.reject("Quota", "no")
    assert repr(waiting) == "<ReservedPod default/p on a: Unschedulable>"


def in_pre_bind() -> tuple[ReservedPod, list[str]]:
    going, cancelled = reserved(), list[str]()
    going.start_pre_bind(lambda: cancelled.append("cancelled"))
    return going, cancelled


def test_pre_bind_can_be_cancelled_once() -> None:
    going, cancelled = in_pre_bind()
    assert not going.is_rejected
    assert going.preempt("Default")
    assert cancelled == ["cancelled"]
    assert going.is_rejected
    assert not going.preempt("Other")
    assert going.end_pre_bind() == Status(Code.ERROR, ("preempted by Default",))
    assert going.verdict == Status(Code.SUCCESS)


def test_finished_pre_bind_cannot_be_cancelled() -> None:
    going, cancelled = in_pre_bind()
    assert going.end_pre_bind() is None
    assert not going.preempt("Default")
    assert not going.is_rejected
    assert cancelled == []


def test_between_permit_and_pre_bind_there_is_nothing_to_cancel() -> None:
    assert not reserved().preempt("Default")


@pytest.mark.parametrize(
    ("decide", "is_rejected"),
    [
        (lambda waiting: None, False),
        (lambda waiting: waiting.allow("Quota"), False),
        (lambda waiting: waiting.reject("Quota", "no"), True),
        (lambda waiting: waiting.preempt("Default"), True),
    ],
)
def test_rejected_pod_is_being_requeued(decide: Callable[[ReservedPod], object], is_rejected: bool) -> None:
    waiting = reserved(Quota=9.0)
    decide(waiting)
    assert waiting.is_rejected is is_rejected
