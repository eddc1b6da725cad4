"""QueueSort: the smallest key is tried first."""

from __future__ import annotations

from kframework.state.pods import QueuedPod
from kframework.testing import make_pod
from kframework.testing.scenario import ScenarioResult
from tests.extension_points.scripted import plugin, run


def order(result: ScenarioResult) -> list[str]:
    return [decision.pod.removeprefix("default/") for decision in result.decisions]


def test_default_order_is_by_priority_then_time() -> None:
    pods = [make_pod("low", priority=1), make_pod("first", priority=5), make_pod("second", priority=5)]
    assert order(run(pods=pods)) == ["first", "second", "low"]


def test_pod_with_the_smallest_key_is_first() -> None:
    by_name = plugin("ByName", queue_sort=lambda queued: queued.pod.name)
    assert order(run(by_name, pods=("c", "a", "b"))) == ["a", "b", "c"]


def test_pods_whose_sort_key_fails_come_last_in_queueing_order() -> None:
    def key(queued: QueuedPod) -> str:
        if queued.pod.name.startswith("bad"):
            raise ValueError("no key")
        return queued.pod.name

    result = run(plugin("ByName", queue_sort=key), pods=("bad-2", "b", "bad-1", "a"))
    assert order(result) == ["a", "b", "bad-2", "bad-1"]
    assert all(result.state_of(pod) == "bound" for pod in ("a", "b", "bad-1", "bad-2"))


def test_incomparable_sort_keys_lose_no_pod() -> None:
    odd = plugin("Odd", queue_sort=lambda queued: queued.pod.name if queued.pod.name != "odd" else 7)
    result = run(odd, pods=("b", "odd", "a"))
    assert {result.state_of(pod) for pod in ("a", "b", "odd")} == {"bound"}
