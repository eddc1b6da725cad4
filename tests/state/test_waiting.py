"""Reserved pods: the first verdict wins."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kframework.state.pods import Interned, PendingPod
from kframework.state.waiting import ReservedPod, WaitingPods
from kframework.status import Code, Status
from tests.objects_made import pod


def reserved(uid: str = "p", **deadlines: float) -> ReservedPod:
    """Reserve a pod for which plugins wait until these times."""
    return ReservedPod(PendingPod(pod(uid), Interned()), "a", dict(deadlines), since=0.0)


VERDICTS: list[tuple[Callable[[ReservedPod], bool], Status]] = [
    (lambda waiting: waiting.allow("Quota"), Status(Code.SUCCESS)),
    (lambda waiting: waiting.reject("Quota", "too much"), Status(Code.UNSCHEDULABLE, ("too much",), "Quota")),
    (lambda waiting: waiting.preempt("Default", "preempted"), Status(Code.ERROR, ("preempted",), "Default")),
]


@pytest.mark.parametrize(("first", "verdict"), VERDICTS)
@pytest.mark.parametrize("second", [second for second, _ in VERDICTS])
def test_the_first_verdict_wins(
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


def test_a_pod_that_nobody_waits_for_goes_on_at_once() -> None:
    waiting, told = reserved(), list[str]()
    assert waiting.verdict == Status(Code.SUCCESS)
    waiting.on_verdict(lambda: told.append("now"))
    assert told == ["now"]
    assert not waiting.reject("Quota", "late")


def test_one_who_asks_late_is_told_at_once() -> None:
    waiting, told = reserved(Quota=9.0), list[str]()
    waiting.reject("Quota", "no")
    waiting.on_verdict(lambda: told.append("now"))
    assert told == ["now"]


def test_reserved_pods_are_kept_until_removed() -> None:
    pods, one, other = WaitingPods(), reserved("p", Quota=9.0), reserved("q", Quota=5.0)
    pods.put(one)
    pods.put(other)
    assert (pods.get("p"), pods.get("nobody"), len(pods)) == (one, None, 2)
    assert list(pods.undecided()) == [one, other]
    other.allow("Quota")
    assert list(pods.undecided()) == [one]
    assert pods.get("q") is other
    assert repr(pods) == "<WaitingPods 2 reserved, 1 waiting>"
    pods.remove("p")
    pods.remove("p")
    assert len(pods) == 1


def test_the_earliest_deadline_of_the_undecided_counts() -> None:
    pods, deadlines = WaitingPods(), list[float | None]()
    for waiting in (reserved("p", Quota=9.0), reserved("q", Quota=5.0, Gang=7.0), reserved("r")):
        pods.put(waiting)
    for uid in ("r", "q", "p"):
        deadlines.append(pods.deadline)
        decided = pods.get(uid)
        assert decided is not None
        decided.reject("Quota", "no")
    assert [*deadlines, pods.deadline] == [5.0, 5.0, 9.0, None]


def test_a_verdict_may_be_given_while_the_waiting_are_listed() -> None:
    pods = WaitingPods()
    for uid in "pqr":
        pods.put(reserved(uid, Gang=1.0))
    for waiting in pods.undecided():
        waiting.allow("Gang")
        pods.remove(waiting.pod.uid)
    assert len(pods) == 0


def test_a_reserved_pod_shows_what_it_waits_for() -> None:
    waiting = reserved(Quota=9.0, Gang=5.0)
    assert repr(waiting) == "<ReservedPod default/p on a: waits for Quota, Gang>"
    waiting.reject("Quota", "no")
    assert repr(waiting) == "<ReservedPod default/p on a: Unschedulable>"
