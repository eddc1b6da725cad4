"""Hierarchical shares, compared with the same worked out from nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kframework_batch.job import JobInfo
from kframework_batch.plugins.drf import FairTree
from kframework_batch.queue import QueueInfo
from kframework_batch.resource import Resource
from kframework_batch.testing import make_queue

#: A job: its queue, what it holds and what it asks for.
Job = tuple[str, Mapping[str, int], Mapping[str, int]]


def queue_of(name: str, path: str | None = None, weights: str = "") -> QueueInfo:
    said = {} if path is None else {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}
    return QueueInfo(make_queue(name, annotations=said))


def tree_of(
    total: Mapping[str, int], queues: Sequence[QueueInfo], jobs: Sequence[Job]
) -> tuple[FairTree, list[JobInfo], list[Resource]]:
    tree, made, accounts = FairTree(Resource(total)), [], []
    for queue in queues:
        tree.add_queue(queue)
    for at, (queue_name, held, requested) in enumerate(jobs):
        job = JobInfo("default", f"j{at}")
        job.queue, job.requested = queue_name, Resource(requested)
        made.append(job)
        accounts.append(Resource(held))
        tree.add_job(job, accounts[-1])
    return tree, made, accounts


def slowly(total: Mapping[str, int], paths: Mapping[str, str], jobs: Sequence[Job]) -> dict[str, tuple[bool, float]]:
    """Return for each place whether it is saturated and its share."""
    all_held = {name: sum(held.get(name, 0) for _, held, _ in jobs) for name in total}

    def dominant(held: Mapping[str, float]) -> float:
        return max((held.get(name, 0) / total[name] for name in total), default=0.0)

    def leaf(held: Mapping[str, int], requested: Mapping[str, int]) -> tuple[bool, float, Mapping[str, float]]:
        full = any(held.get(name, 0) >= asked for name, asked in requested.items() if asked)
        gone = any(all_held.get(name, 0) >= total.get(name, 0) for name, asked in requested.items() if asked)
        return full or gone or not any(requested.values()), dominant(held), held

    shares: dict[str, tuple[bool, float]] = {}

    def place(path: str) -> tuple[bool, float, Mapping[str, float]]:
        below = {"/".join(each.split("/")[: path.count("/") + 2]) for each in paths.values()}
        parts = [place(each) for each in sorted(below) if each.startswith(f"{path}/")]
        parts += [leaf(held, asked) for queue, held, asked in jobs if paths[queue] == path]
        smallest = min([1.0, *[share for full, share, _ in parts if share and not full]])
        held: dict[str, float] = {}
        for full, share, part in parts:
            for name, amount in part.items():
                held[name] = held.get(name, 0) + (amount if full else amount * smallest / share if share else 0)
        shares[path] = all(full for full, _, _ in parts), dominant(held)
        return (*shares[path], held)

    place("root")
    return shares


PATHS = {"p": "root/x/p", "q": "root/x/q", "r": "root/y/r", "s": "root/s"}
amounts = st.dictionaries(st.sampled_from(["cpu", "gpu"]), st.integers(0, 5))
jobs = st.lists(st.tuples(st.sampled_from(sorted(PATHS)), amounts, amounts), max_size=8)


@given(
    jobs=jobs,
    total=st.fixed_dictionaries({"cpu": st.integers(1, 20)}, optional={"gpu": st.integers(1, 20)}),
    changes=st.lists(st.tuples(st.integers(0, 7), amounts), max_size=6),
)
def test_incremental_shares_equal_recomputed_shares(
    jobs: list[Job], total: dict[str, int], changes: list[tuple[int, dict[str, int]]]
) -> None:
    queues = [queue_of(name, path, "1/1/1") for name, path in PATHS.items()]
    tree, made, accounts = tree_of(total, queues, jobs)

    def check() -> None:
        now = [(queue, accounts[at], asked) for at, (queue, _, asked) in enumerate(jobs)]
        shares = slowly(total, PATHS, now)
        for queue in queues:
            steps = PATHS[queue.name].split("/")
            expected = [shares["/".join(steps[: depth + 1])] for depth in range(1, len(steps))]
            key = tree.key(queue)
            assert [full for full, _ in key] == [full for full, _ in expected]
            assert [share for _, share in key] == pytest.approx([share for _, share in expected])

    check()
    first = [tree.key(queue) for queue in queues]
    done = [(at, Resource(amounts)) for at, amounts in changes if at < len(made)]
    for at, more in done:
        accounts[at].add(more)
        tree.update_job(made[at], more, 1)
        check()
    for at, more in reversed(done):
        accounts[at].sub(more)
        tree.update_job(made[at], more, -1)
    assert [tree.key(queue) for queue in queues] == first


def test_queue_of_higher_weight_may_hold_more() -> None:
    queues = [queue_of("light", "root/light", "1/1"), queue_of("heavy", "root/heavy", "1/4")]
    asked = {"cpu": 9}
    tree, _, _ = tree_of({"cpu": 10}, queues, [("light", {"cpu": 1}, asked), ("heavy", {"cpu": 3}, asked)])
    assert [tree.key(queue) for queue in queues] == [((False, 0.1),), ((False, 0.3 / 4),)]


@pytest.mark.parametrize(
    ("weights", "share"), [("1/2", 0.1), ("1/0.5", 0.2), ("1/much", 0.2), ("", 0.2), ("1", 0.2), ("1/2/3", 0.1)]
)
def test_invalid_weight_counts_as_one(weights: str, share: float) -> None:
    queue = queue_of("a", "root/a", weights)
    tree, _, _ = tree_of({"cpu": 10}, [queue], [("a", {"cpu": 2}, {"cpu": 9})])
    assert tree.key(queue) == ((False, share),)


def test_queue_without_hierarchy_annotation_is_below_the_root() -> None:
    queues = [queue_of("a"), queue_of("b")]
    tree, _, _ = tree_of({"cpu": 10}, queues, [("a", {"cpu": 2}, {"cpu": 9})])
    assert [tree.key(queue) for queue in queues] == [((False, 0.2),), ((True, 0.0),)]  # who asks for nothing is full


def test_large_unsaturated_child_is_scaled_down_to_the_smallest_sibling() -> None:
    queues = [queue_of("a", "root/x/a", "1/1/1"), queue_of("b", "root/x/b", "1/1/1")]
    tree, _, _ = tree_of({"cpu": 10}, queues, [("a", {"cpu": 6}, {"cpu": 9}), ("b", {"cpu": 1}, {"cpu": 9})])
    (_, share), _ = tree.key(queues[0])
    assert share == pytest.approx(0.2)


def test_jobs_can_be_children_of_the_root() -> None:
    queue = queue_of("a", "root", "1")
    tree, _, _ = tree_of({"cpu": 10}, [queue], [("a", {"cpu": 2}, {"cpu": 9})])
    assert tree.key(queue) == ()
