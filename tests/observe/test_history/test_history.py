"""The last decisions and bindings are kept, in order, for all and for each pod; older ones are forgotten."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.core.cycle.records import Binding, Decision, Result
from kframework.observe.history import History
from kframework.values.status import Code


def decision(attempt: int, uid: str) -> Decision:
    return Decision(
        attempt=attempt,
        pod_attempts=1,
        pod=f"default/{uid}",
        uid=uid,
        profile="default-scheduler",
        queued_at=0.0,
        popped_at=0.0,
        result=Result.SCHEDULED,
    )


def binding(attempt: int, uid: str) -> Binding:
    return Binding(
        attempt=attempt,
        pod=f"default/{uid}",
        uid=uid,
        profile="default-scheduler",
        node="n1",
        started_at=0.0,
        ended_at=1.0,
        code=Code.SUCCESS,
    )


@given(st.lists(st.sampled_from("abc")), st.integers(1, 5), st.integers(0, 9))
def test_history_keeps_the_last_records(uids: list[str], kept: int, count: int) -> None:
    decisions = [decision(attempt, uid) for attempt, uid in enumerate(uids, 1)]
    history = History(kept)
    for each in decisions:
        history.on_decision(each)
        history.on_binding(binding(each.attempt, each.uid))
    remembered = decisions[-kept:]
    assert history.recent(count) == remembered[::-1][:count]
    assert history.after_attempt(2, 100) == [each for each in remembered if each.attempt > 2]
    for uid in "abc":
        alike = [each for each in remembered if each.uid == uid]
        assert list(history.for_pod(uid).decisions) == alike
        assert [each.attempt for each in history.for_pod(uid).bindings] == [each.attempt for each in alike]


def test_last_attempt_is_the_number_of_attempts() -> None:
    history = History(2)
    assert history.last_attempt == 0
    for attempt in range(1, 6):
        history.on_decision(decision(attempt, "a"))
    assert (history.last_attempt, len(history.recent(99))) == (5, 2)


def test_decisions_on_a_pod_are_found_by_its_name() -> None:
    history = History()
    for attempt, uid in enumerate("abab", 1):
        history.on_decision(decision(attempt, uid))
    assert [each.attempt for each in history.for_pod_name("default/b", 9)] == [4, 2]
    assert [each.attempt for each in history.for_pod_name("default/b", 1)] == [4]
    assert history.for_pod_name("default/c", 9) == []


def test_decision_finds_its_binding() -> None:
    history = History()
    history.on_binding(binding(2, "a"))
    history.on_binding(binding(4, "a"))
    assert history.binding_for(decision(2, "a")) == binding(2, "a")
    assert history.binding_for(decision(3, "a")) is None


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ({}, 10),
        ({"timings": (("filter", 1, Code.SUCCESS),) * 4}, 10),
        ({"timings": (("filter", 1, Code.SUCCESS),) * 12}, 6),
        ({"plugins": (("filter", "A", 1, Code.SUCCESS),) * 68}, 2),
        ({"message": "x" * 6_800}, 2),
    ],
)
def test_history_keeps_fewer_long_records(said: dict[str, Any], kept: int) -> None:
    history = History(10)
    talkative = [msgspec.structs.replace(decision(attempt, "a"), **said) for attempt in range(1, 16)]
    for each in talkative:
        history.on_decision(each)
    assert history.recent(99) == talkative[: -kept - 1 : -1]


def test_history_keeps_the_last_record_of_any_length() -> None:
    history = History(10)
    history.on_decision(decision(5, "a"))
    endless = msgspec.structs.replace(decision(6, "b"), message="x" * 1_000_000)
    history.on_decision(endless)
    assert history.recent(9) == [endless]
    assert history.for_pod("a").decisions == ()
    last = decision(7, "c")
    history.on_decision(last)
    assert history.recent(9) == [last]
