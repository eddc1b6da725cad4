"""The inbox: one order, one wake-up."""

from __future__ import annotations

from kframework.state.inbox import ActivateRequested, Inbox, Message, Nominated, Synced, Upserted
from kframework.testing import make_pod


def asked(n: int) -> Message:
    """Make a distinct message."""
    return Nominated("uid", str(n))


def test_messages_come_out_in_the_order_they_came_in() -> None:
    inbox = Inbox()
    messages: list[Message] = [asked(1), Synced(), ActivateRequested(("uid",)), asked(1)]
    for message in messages:
        inbox.offer(message)
    assert len(inbox) == 4
    assert list(inbox.drain()) == messages
    assert list(inbox.drain()) == []


def test_message_that_arrives_during_a_drain_is_drained_too() -> None:
    inbox, seen = Inbox(), list[Message]()
    inbox.offer(asked(0))
    for message in inbox.drain():
        seen.append(message)
        if len(seen) < 3:
            inbox.offer(asked(len(seen)))
    assert seen == [asked(0), asked(1), asked(2)]


def test_draining_may_stop_and_go_on() -> None:
    inbox = Inbox()
    inbox.offer(asked(1))
    inbox.offer(asked(2))
    assert next(inbox.drain()) == asked(1)
    assert list(inbox.drain()) == [asked(2)]


def test_only_the_first_message_wakes() -> None:
    inbox, woken = Inbox(), list[int]()
    inbox.wake = lambda: woken.append(len(inbox))
    inbox.offer(Synced())
    inbox.offer(Synced())
    assert woken == [1]
    list(inbox.drain())
    inbox.offer(Synced())
    assert woken == [1, 1]


def test_object_is_held_until_its_message_is_drained() -> None:
    inbox, pod = Inbox(), make_pod("web")
    assert not inbox.holds(pod)
    inbox.offer(Upserted(pod))
    inbox.offer(asked(1))
    assert inbox.holds(pod)
    assert not inbox.holds(make_pod("web"))
    assert len(list(inbox.drain())) == 2
    assert not inbox.holds(pod)


def test_only_the_last_messages_are_looked_at() -> None:
    inbox, pod = Inbox(), make_pod("web")
    inbox.offer(Upserted(pod))
    for number in range(63):
        inbox.offer(asked(number))
    assert inbox.holds(pod)
    inbox.offer(asked(63))
    assert not inbox.holds(pod)
