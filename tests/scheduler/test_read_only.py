"""An engine whose plugins cannot write to what they are shown."""

from __future__ import annotations

import pytest

from kframework.objects.read_only import ReadOnlyError
from kframework.scheduler.read_only import ReadOnlyInbox
from kframework.state.inbox import Deleted, Synced, Upserted
from kframework.testing import make_pod


@pytest.mark.parametrize("message", [Upserted(make_pod()), Deleted(make_pod())])
def test_objects_are_read_only_from_their_arrival_on(message: Upserted | Deleted) -> None:
    inbox = ReadOnlyInbox()
    inbox.offer(message)
    (arrived,) = inbox.drain()
    assert arrived == message
    assert isinstance(arrived, Upserted | Deleted)
    with pytest.raises(ReadOnlyError):
        arrived.obj.metadata.labels["a"] = "b"


def test_other_messages_pass() -> None:
    inbox = ReadOnlyInbox()
    inbox.offer(Synced())
    assert list(inbox.drain()) == [Synced()]
