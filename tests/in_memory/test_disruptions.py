"""Budgets allow what their pods can spare, as pods and budgets come and go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kframework.clock import LoopClock, VirtualTimeLoop, run_virtual
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.disruptions import DisruptionController
from kframework.objects import (
    ApiObject,
    LabelSelector,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodCondition,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PodSpec,
    PodStatus,
    ReplicaSet,
    ReplicationController,
    ReplicationControllerSpec,
    StatefulSet,
    StatefulSetSpec,
    WorkloadSpec,
)

WEB = LabelSelector(match_labels={"app": "web"})


@pytest.fixture(scope="module")
def anyio_backend() -> object:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


def budget(
    lowest: int | str | None = None,
    highest: int | str | None = None,
    selector: LabelSelector | None = WEB,
    namespace: str = "default",
) -> PodDisruptionBudget:
    spec = PodDisruptionBudgetSpec(min_available=lowest, max_unavailable=highest, selector=selector)
    return PodDisruptionBudget(metadata=ObjectMeta(name="web", namespace=namespace), spec=spec)


def pod(name: str, phase: str = "Running", *, owner: str = "", app: str = "web", ready: str = "") -> Pod:
    owners = (OwnerReference(kind="Any", name=owner, uid=owner, controller=True),) if owner else ()
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", labels={"app": app}, owner_references=owners),
        spec=PodSpec(node_name="n1"),
        status=PodStatus(phase=phase, conditions=(PodCondition(type="Ready", status=ready),) if ready else ()),
    )


def pods(count: int, **more: str) -> list[Pod]:
    return [pod(f"{more.get('owner', 'bare')}-{number}", **more) for number in range(count)]


def replicas(uid: str, count: int | None) -> ReplicaSet:
    metadata = ObjectMeta(name=uid, namespace="default", uid=uid)
    return ReplicaSet(metadata=metadata, spec=WorkloadSpec(replicas=count))


@asynccontextmanager
async def run_cluster(*objects: ApiObject) -> AsyncIterator[MemoryCluster]:
    """Run a controller over a cluster; it has done its work when the block begins."""
    memory = MemoryCluster(LoopClock(asyncio.get_running_loop()), objects)
    task = asyncio.ensure_future(DisruptionController(memory).run())
    await settled()
    yield memory
    assert not task.done(), task.exception()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def settled() -> None:
    await asyncio.sleep(1)


def budget_counts(memory: MemoryCluster) -> tuple[int, int, int, int]:
    """Return how many pods are expected, healthy, desired and may go."""
    status = memory.read(PodDisruptionBudget, "web", "default").status
    return status.expected_pods, status.current_healthy, status.desired_healthy, status.disruptions_allowed


@pytest.mark.parametrize(
    ("about", "others", "expected"),
    [
        (budget(lowest=2), pods(3), (3, 3, 2, 1)),
        (budget(lowest=2), pods(2), (2, 2, 2, 0)),
        (budget(lowest=5), pods(2), (2, 2, 5, 0)),
        (budget(lowest=0), [], (0, 0, 0, 0)),
        (budget(lowest="50%"), pods(3), (3, 3, 2, 1)),
        (budget(lowest="100%"), pods(3), (3, 3, 3, 0)),
        (budget(highest=1), pods(3), (3, 3, 2, 1)),
        (budget(highest=0), pods(3), (3, 3, 3, 0)),
        (budget(highest=9), pods(3), (3, 3, 0, 3)),
        (budget(highest="50%"), pods(3), (3, 3, 1, 2)),
        (budget(), pods(3), (0, 3, 0, 0)),
        # Not all pods are healthy, or covered.
        (budget(lowest=1), [*pods(1), pod("a", "Pending"), pod("b", ready="False")], (3, 1, 1, 0)),
        (budget(highest=2), [*pods(1), pod("a", "Pending"), pod("b", ready="True")], (3, 2, 1, 1)),
        (budget(highest=1), [*pods(2), pod("a", "Succeeded"), pod("b", app="other")], (2, 2, 1, 1)),
        (budget(highest=1, selector=LabelSelector()), [*pods(2), pod("b", app="other")], (3, 3, 2, 1)),
        (budget(highest=1, selector=None), pods(2), (0, 0, 0, 0)),
        # Controllers say how many pods there should be.
        (budget(highest=1), [replicas("r", 4), *pods(3, owner="r")], (4, 3, 3, 0)),
        (budget(lowest="50%"), [replicas("r", 4), *pods(3, owner="r")], (4, 3, 2, 1)),
        (budget(lowest=2), [replicas("r", 4), *pods(3, owner="r")], (3, 3, 2, 1)),
        (budget(highest=1), [replicas("r", None), *pods(1, owner="r")], (1, 1, 0, 1)),
        (budget(highest=1), [replicas("r", 2), *pods(2, owner="r"), *pods(2, owner="gone"), *pods(1)], (5, 5, 4, 1)),
        (
            budget(highest=1),
            [
                StatefulSet(metadata=ObjectMeta(name="s", uid="s"), spec=StatefulSetSpec(replicas=2)),
                ReplicationController(
                    metadata=ObjectMeta(name="c", uid="c"), spec=ReplicationControllerSpec(replicas=3)
                ),
                *pods(2, owner="s"),
                *pods(3, owner="c"),
            ],
            (5, 5, 4, 1),
        ),
    ],
)
async def test_budget_status_allows_disruptions(
    about: PodDisruptionBudget, others: list[ApiObject], expected: tuple[int, int, int, int]
) -> None:
    async with run_cluster(about, *others) as memory:
        assert budget_counts(memory) == expected


async def test_status_follows_pods() -> None:
    async with run_cluster(budget(highest=1)) as memory:
        assert budget_counts(memory) == (0, 0, 0, 0)
        memory.load(pods(3))
        await settled()
        assert budget_counts(memory) == (3, 3, 2, 1)
        memory.remove(Pod, "bare-0", "default")  # it takes its grace, which nobody ends here
        await settled()
        assert budget_counts(memory) == (3, 2, 2, 0)
        memory.remove(Pod, "bare-0", "default", grace=0)
        await settled()
        assert budget_counts(memory) == (2, 2, 1, 1)
        memory.set_status(memory.read(Pod, "bare-1", "default"), PodStatus(phase="Failed"))
        await settled()
        assert budget_counts(memory) == (1, 1, 0, 1)


async def test_status_follows_budgets_and_controllers() -> None:
    async with run_cluster(*pods(3, owner="r")) as memory:
        memory.add(budget(highest=1))
        await settled()
        assert budget_counts(memory) == (3, 3, 2, 1)
        memory.add(replicas("r", 5))
        await settled()
        assert budget_counts(memory) == (5, 3, 4, 0)
        stored = memory.read(PodDisruptionBudget, "web", "default")
        memory.replace(replace(stored, spec=replace(stored.spec, max_unavailable=3)))
        await settled()
        assert budget_counts(memory) == (5, 3, 2, 1)


async def test_disrupted_pods_are_cleared() -> None:
    status = PodDisruptionBudgetStatus(disruptions_allowed=7, disrupted_pods={"bare-0": "2026-01-01T00:00:00Z"})
    about = replace(
        budget(highest=1), metadata=ObjectMeta(name="web", namespace="default", generation=4), status=status
    )
    async with run_cluster(about, *pods(2)) as memory:
        assert memory.read(PodDisruptionBudget, "web", "default").status == PodDisruptionBudgetStatus(
            disruptions_allowed=1, current_healthy=2, desired_healthy=1, expected_pods=2, observed_generation=4
        )


async def test_unchanged_status_is_not_written() -> None:
    async with run_cluster(budget(highest=1), budget(highest=1, namespace="other"), *pods(2)) as memory:
        assert memory.read(PodDisruptionBudget, "web", "other").status == PodDisruptionBudgetStatus(
            observed_generation=1
        )
        version = memory.version
        await memory.patch(Pod, "bare-0", {"metadata": {"labels": {"x": "y"}}}, "default")
        await settled()
        assert memory.version == version + 1


async def test_many_changes_are_handled_in_one_pass() -> None:
    async with run_cluster(budget(highest=1)) as memory:
        version = memory.version
        for each in pods(50):
            memory.add(each)
            await asyncio.sleep(0.001)
        await settled()
        assert budget_counts(memory) == (50, 50, 49, 1)
        assert memory.version <= version + 50 + 2


_numbers = st.integers(0, 12) | st.integers(0, 100).map(lambda number: f"{number}%")


@given(
    st.tuples(_numbers, st.none()) | st.tuples(st.none(), _numbers),
    st.lists(st.tuples(st.sampled_from(["Pending", "Running", "Succeeded"]), st.sampled_from(["", "r", "s"]))),
    st.integers(0, 6),
)
def test_budget_status_agrees_with_the_rules(
    limits: tuple[int | str | None, int | str | None], plans: list[tuple[str, str]], scale: int
) -> None:
    """Each plan: phase and controller; `r` is there and wants `scale` pods, `s` is not."""

    async def main() -> tuple[int, int, int, int]:
        created = [pod(f"p{number}", phase, owner=owner) for number, (phase, owner) in enumerate(plans)]
        async with run_cluster(budget(*limits), replicas("r", scale), *created) as memory:
            return budget_counts(memory)

    lowest, highest = limits
    healthy = sum(phase == "Running" for phase, _ in plans)
    expected = sum(phase != "Succeeded" and owner != "r" for phase, owner in plans)
    expected += scale if any(owner == "r" for _, owner in plans) else 0
    if highest is not None:
        desired = max(0, expected - share(highest, expected))
    elif isinstance(lowest, str):
        desired = share(lowest, expected)
    else:
        assert lowest is not None
        expected, desired = len(plans), lowest
    allowed = max(0, healthy - desired) if expected else 0
    assert run_virtual(main) == (expected, healthy, desired, allowed)


def share(number: int | str, of: int) -> int:
    return number if isinstance(number, int) else ceil(Fraction(int(number.rstrip("%")), 100) * of)
