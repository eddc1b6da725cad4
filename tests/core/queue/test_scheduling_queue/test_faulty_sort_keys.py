"""A `queue_sort` that answers nonsense: named in the log, while all pods get their turn."""

from __future__ import annotations

from collections.abc import Hashable
from typing import cast

import pytest

from kframework import Plugin, PluginArgs, hookimpl
from kframework.config.models import POINTS
from kframework.core.queue.backoff import Backoff
from kframework.core.queue.scheduling_queue import SchedulingQueue
from kframework.core.runtime.profile import Profile
from kframework.core.runtime.profiles import Profiles
from kframework.framework.handle import Handle
from kframework.state.pods import QueuedPod
from tests.core.queue.rig import START, pending


class Sorter(Plugin):
    """Sorts by a table of the test."""

    name = "Sorter"
    keys: dict[str, object]

    @hookimpl
    def queue_sort(self, queued: QueuedPod) -> Hashable:
        answer = self.keys[queued.pod.name]
        return cast("Hashable", answer() if callable(answer) else answer)


def order(keys: dict[str, object]) -> str:
    """Sort pods by a plugin that answers these keys."""
    sorter = Sorter(PluginArgs(), cast("Handle", None))  # it never turns to its handle
    sorter.keys = keys
    points = {**dict.fromkeys(POINTS, ()), "queue_sort": ("Sorter",)}
    profiles = Profiles({"default-scheduler": Profile("default-scheduler", {"Sorter": sorter}, points, {})})
    queue = SchedulingQueue(profiles, lambda: START, Backoff())
    for name in keys:
        queue.add(pending(name))
    popped = [queue.pop() for _ in keys]
    assert queue.pop() is None
    return "".join(queued.pod.name for queued in popped if queued is not None)


def raises() -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("bad", [None, {}, object(), 1j, raises], ids=["None", "dict", "object", "complex", "raises"])
def test_pod_without_sortable_key_comes_last(bad: object, caplog: pytest.LogCaptureFixture) -> None:
    assert order({"a": bad, "b": 2, "c": bad, "d": 1}) == "dbac"
    assert "Sorter" in caplog.text and "queue_sort" in caplog.text


@pytest.mark.parametrize(
    ("keys", "popped"),
    [
        ({"a": 1, "b": "x", "c": 0}, "cab"),
        ({"a": (1, None), "b": (1, 5), "c": (0, "x")}, "cab"),
        ({"a": (0, 5), "b": (1, "x"), "c": (1, 3), "d": (2, 0)}, "abcd"),
    ],
)
def test_incomparable_keys_are_reported_and_lose_no_pod(
    keys: dict[str, object], popped: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert order(keys) == popped
    (record,) = caplog.records
    assert "Sorter" in record.message and "TypeError: '<' not supported between" in record.message


def test_comparable_keys_are_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    assert order({"a": (1, 0), "b": (0, 1.5), "c": (0, 1.5), "d": (-1, 2.0)}) == "dbca"
    assert not caplog.records
