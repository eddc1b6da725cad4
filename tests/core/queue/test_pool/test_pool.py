"""The pool of pods that wait for an event, and its index by the plugins that hold them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kframework.core.queue.pool import HeldPods
from tests.core.queue.rig import queued

PROFILE = "default-scheduler"


def names(pool: HeldPods, *plugins: str) -> list[str]:
    return [found.pod.name for found in pool.held_by_any({(PROFILE, plugin): None for plugin in plugins})]


def test_held_pods_are_found_by_plugin() -> None:
    pool = HeldPods()
    pool.put(queued("a"), ("Fit", "Taints"))
    other = queued("b")
    pool.put(other, ("Taints",))
    assert names(pool, "Fit") == ["a"]
    assert names(pool, "Taints") == ["a", "b"]
    assert names(pool, "Taints", "Fit", "Other") == ["a", "b"]
    assert pool.held_by_any({("other-scheduler", "Fit"): None}) == []
    meant = {(PROFILE, "Taints"): (other.pod.uid, "c"), (PROFILE, "Fit"): ()}
    assert [found.pod.name for found in pool.held_by_any(meant)] == ["b"]


@pytest.mark.parametrize("holders", [(), ("Fit",), ("Fit", "Taints")])
def test_held_pods_are_listed_in_order_of_arrival(holders: tuple[str, ...]) -> None:
    pool = HeldPods()
    for name in ("c", "a", "b"):
        pool.put(queued(name), holders)
    assert [found.pod.name for found in pool] == ["c", "a", "b"]


@given(
    st.lists(
        st.tuples(st.integers(0, 8), st.frozensets(st.sampled_from("ABCD")), st.frozensets(st.sampled_from("ABCD")))
    )
)
def test_index_finds_the_same_pods_as_a_full_scan(
    steps: list[tuple[int, frozenset[str], frozenset[str]]],
) -> None:
    pool = HeldPods()
    held: dict[str, frozenset[str]] = {}
    for number, holders, asked in steps:
        pod = queued(f"pod-{number}")
        if pool.pop(pod.pod.uid) is None:
            pool.put(pod, sorted(holders))
            held[pod.pod.name] = holders
        else:
            del held[pod.pod.name]
        assert names(pool, *sorted(asked)) == [name for name, by in held.items() if by & asked]
        counts = {plugin: sum(plugin in by for by in held.values()) for plugin in "ABCD"}
        assert pool.counts == {(PROFILE, plugin): count for plugin, count in counts.items() if count}
        for plugin in "ABCD":
            found = [queued.pod.name for queued in pool.held_by((PROFILE, plugin))]
            assert found == [name for name, by in held.items() if plugin in by]
