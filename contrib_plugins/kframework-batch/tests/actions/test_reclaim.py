"""reclaim: what queues take back from each other, and that every eviction helps a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kframework_batch.job import TaskInfo
from kframework_batch.objects import Queue
from kframework_batch.plugin import BatchPlugin, hookimpl
from kframework_batch.session import Session
from kframework_batch.task_status import TaskStatus
from kframework_batch.testing import Gang, Stage, make_gang, make_group, make_node, make_queue, make_task
from msgspec.structs import replace

from kframework.objects import Node, Pod

CONFIGURATION = """
actions: "allocate, reclaim"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
  - name: proportion
  - name: predicates
  - name: nodeorder
"""

#: The plugins of a later tier are asked where those of the first name nobody: gangs are not safe from them.
TWO_TIERS = CONFIGURATION.replace("  - name: proportion", "- plugins:\n  - name: proportion")

#: With a plugin that notes what is promised (see below).
WATCHED = CONFIGURATION + "  - name: promises\n"

#: Jobs starve as long as any task of theirs has no room.
HUNGRY = CONFIGURATION.replace("  - name: gang\n", "  - name: gang\n    enableJobStarving: false\n")

QUEUES = [make_queue("mine"), make_queue("yours")]


@pytest.fixture(autouse=True)
def _sessions_run_to_their_end(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail where an action has raised: a session that ends early looks like one that found nothing."""
    yield
    assert "ended early" not in caplog.text


def staged(
    nodes: Sequence[Node], *gangs: Gang, configuration: str = CONFIGURATION, queues: Sequence[Queue] = QUEUES
) -> Stage:
    """Run a session."""
    return Stage(configuration, nodes=nodes, queues=queues, gangs=gangs, classes=[Promises]).session()


def yours(size: int, *, minimum: int = 1, on: str = "n1", name: str = "yours", **more: object) -> Gang:
    """Make a running job of the queue that has more than its due."""
    return make_gang(name, size, minimum=minimum, on=[on] * size, queue="yours", **more)  # type: ignore[arg-type]  # whatever make_gang takes


def mine(size: int, *, minimum: int | None = None, name: str = "mine", **more: object) -> Gang:
    """Make a waiting job of the queue that has less than its due."""
    return make_gang(name, size, minimum=minimum, queue="mine", **more)  # type: ignore[arg-type]  # whatever make_gang takes


def counts(stage: Stage) -> Counter[str]:
    """Count the victims of each job."""
    return Counter(name.rpartition("-")[0] for name in stage.evicted)


def remade(pod: Pod) -> Pod:
    """Create the pod with which a job's controller replaces a deleted one."""
    name = f"{pod.metadata.name}-again"
    metadata = replace(pod.metadata, name=name, uid=f"pods/{name}", deletion_timestamp=None)
    spec = replace(pod.spec, node_name="")
    return replace(pod, metadata=metadata, spec=spec, status=replace(pod.status, phase="Pending"))


def test_queue_reclaims_its_deserved_share_and_replaces_its_victims() -> None:
    stage = staged([make_node("n1", cpu=4)], yours(4), mine(2))
    assert counts(stage) == {"yours": 2}
    assert set(stage.evicted.values()) == {"reclaim"}
    stage.finish_evictions()
    assert sorted(stage.session().bound) == ["mine-0", "mine-1"]
    assert counts(stage) == {"yours": 2}


def test_preemptor_waits_while_victims_terminate() -> None:
    assert counts(staged([make_node("n1", cpu=4)], yours(4), mine(2)).session(3)) == {"yours": 2}


@pytest.mark.parametrize(
    ("victims", "waiting", "evicted"),
    [
        pytest.param(yours(4, minimum=4), mine(2), 0, id="a gang keeps its minimum"),
        pytest.param(yours(4, minimum=3), mine(2), 0, id="it can spare one, two are needed"),
        pytest.param(yours(4, minimum=3), mine(1), 1, id="it can spare one, one is needed"),
        pytest.param(yours(4), mine(3), 0, id="no more than its due"),
        pytest.param(yours(4), mine(3, minimum=2), 2, id="the minimum only"),
        pytest.param(make_gang("a", 4, minimum=1, on=["n1"] * 4, queue="mine"), mine(1), 0, id="its own queue"),
        pytest.param(yours(4), mine(1, phase="Pending"), 1, id="let in by allocate"),
    ],
)
def test_number_of_victims(victims: Gang, waiting: Gang, evicted: int) -> None:
    assert len(staged([make_node("n1", cpu=4)], victims, waiting).evicted) == evicted


def test_nothing_is_reclaimed_from_queue_that_is_not_reclaimable() -> None:
    queues = [make_queue("mine"), make_queue("yours", reclaimable=False)]
    assert staged([make_node("n1", cpu=4)], yours(4), mine(1), queues=queues).evicted == {}


def test_only_running_tasks_are_reclaimed() -> None:
    group, pods = yours(4)
    bound = [replace(pod, status=replace(pod.status, phase="Pending")) for pod in pods[1:]]
    assert staged([make_node("n1", cpu=4)], (group, [pods[0], *bound]), mine(1, cpu=2)).evicted == {}


def test_preemption_policy_never_is_respected() -> None:
    waiting = make_group("mine", queue="mine"), [make_task("mine-0", "mine", preemption_policy="Never")]
    assert staged([make_node("n1", cpu=4)], yours(4), waiting).evicted == {}


def test_node_with_enough_idle_room_is_used_without_victims() -> None:
    # On n2 there is nobody to take from; room there is for one of the two.
    nodes = [make_node("n1", cpu=4), make_node("n2", cpu=1)]
    stage = staged(nodes, yours(4), mine(2))
    assert counts(stage) == {"yours": 1}
    stage.finish_evictions()
    assert Counter(stage.session().bound.values()) == {"n1": 1, "n2": 1}


@pytest.mark.parametrize("actions", ["reclaim, allocate", "allocate, reclaim"])
def test_reclaim_leaves_job_without_victims_to_allocate(actions: str) -> None:
    configuration = CONFIGURATION.replace("allocate, reclaim", actions)
    stage = staged([make_node("n1", cpu=6)], yours(4), mine(2), configuration=configuration)
    assert (sorted(stage.bound), stage.evicted) == (["mine-0", "mine-1"], {})


@pytest.mark.parametrize("actions", ["reclaim, allocate", "allocate, reclaim"])
def test_room_of_deleted_victims_is_used_in_any_order_of_actions(actions: str) -> None:
    configuration = CONFIGURATION.replace("allocate, reclaim", actions)
    stage = staged([make_node("n1", cpu=4)], yours(4), mine(2), configuration=configuration).session()
    stage.finish_evictions()
    assert sorted(stage.session().bound) == ["mine-0", "mine-1"]
    assert counts(stage) == {"yours": 2}


class Generous(BatchPlugin):
    """Lets anybody go."""

    name = "generous"

    @hookimpl
    def reclaimable(self, session: Session, reclaimer: TaskInfo, tasks: Sequence[TaskInfo]) -> Sequence[TaskInfo]:
        return tasks


def test_victims_are_evicted_until_predicates_pass() -> None:
    # The port is held by the last to go; by amounts any of them would do.
    group, _ = yours(0, minimum=0, phase="Running")
    pods = [
        make_task(f"yours-{n}", "yours", node="n1", priority=n, host_ports=[80] if n == 3 else []) for n in range(4)
    ]
    waiting = make_group("mine", queue="mine"), [make_task("mine-0", "mine", host_ports=[80])]
    stage = Stage(
        CONFIGURATION.replace("proportion", "generous"),
        nodes=[make_node("n1", cpu=4)],
        queues=QUEUES,
        gangs=[(group, pods), waiting],
        classes=[Generous],
    ).session()
    assert list(stage.evicted) == ["yours-3"]


def test_room_of_one_victim_is_used_by_all_tasks_that_fit() -> None:
    nodes = [make_node("n1", cpu=4), make_node("n2", cpu=4)]
    victims = [yours(1, minimum=0, cpu=4, on=f"n{n}", name=f"yours{n}") for n in (1, 2)]
    assert len(staged(nodes, *victims, mine(4)).evicted) == 1


def test_jobs_of_queue_have_turns_until_it_has_its_deserved_share() -> None:
    gangs = [mine(1, name=f"mine{n}", age=9 - n) for n in range(4)]
    stage = staged([make_node("n1", cpu=4)], yours(4), *gangs)
    assert counts(stage) == {"yours": 2}
    stage.finish_evictions()
    assert sorted(stage.session().bound) == ["mine0-0", "mine1-0"]


def test_gang_below_its_minimum_is_evicted_as_a_whole() -> None:
    nodes = [make_node("n1", cpu=2), make_node("n2", cpu=2)]
    gang = make_gang("yours", 4, on=["n1", "n1", "n2", "n2"], queue="yours")
    stage = staged(nodes, gang, mine(1), configuration=TWO_TIERS)
    assert counts(stage) == {"yours": 4}


def test_room_of_evicted_gang_is_used_by_others() -> None:
    nodes = [make_node("n1", cpu=2), make_node("n2", cpu=2)]
    gangs = [make_gang(name, 2, on=["n1", "n2"], queue="yours") for name in ("one", "two")]
    stage = staged(nodes, *gangs, mine(2), configuration=TWO_TIERS)
    assert sorted(counts(stage).values()) == [2]
    stage.finish_evictions()
    assert sorted(stage.session().bound) == ["mine-0", "mine-1"]


def test_surplus_tasks_of_gangs_are_reclaimed_first() -> None:
    nodes = [make_node("n1", cpu=2), make_node("n2", cpu=2)]
    gangs = [yours(2, minimum=2, on="n1", name="whole"), yours(2, minimum=1, on="n2", name="spare")]
    for seed in range(4):
        stage = Stage(TWO_TIERS, nodes=nodes, queues=QUEUES, gangs=[*gangs, mine(1)], seed=seed).session()
        assert counts(stage) == {"spare": 1}


def test_gang_is_not_evicted_as_a_whole_without_gang_plugin() -> None:
    configuration = TWO_TIERS.replace("  - name: gang\n", "")
    stage = staged([make_node("n1", cpu=4)], yours(4, minimum=4), mine(1), configuration=configuration)
    assert counts(stage) == {"yours": 1}


@pytest.mark.parametrize(
    ("configuration", "running"),
    [
        pytest.param(CONFIGURATION, {"mine": 1, "yours": 3}, id="up to the minimum"),
        pytest.param(HUNGRY, {"mine": 2, "yours": 2}, id="up to what is due"),
    ],
)
def test_queues_do_not_reclaim_the_same_room_from_each_other_in_turn(
    configuration: str, running: Mapping[str, int]
) -> None:
    gangs = [yours(4, minimum=0), mine(4, minimum=1)]
    stage = staged([make_node("n1", cpu=4)], *gangs, configuration=configuration)
    for _ in range(8):
        again = [remade(pod) for name in stage.evicted if isinstance(pod := stage.objects.get((Pod, name)), Pod)]
        stage.finish_evictions()
        for pod in again:
            stage.put(pod)
        stage.session()
    there = Counter(task.job.name for task in stage.engine.cache.tasks.values() if task.node_name)
    assert there == running
    assert counts(stage) == {"yours": running["mine"]}


class Promises(BatchPlugin):
    """Notes the nodes on which tasks are promised room at the end of a session."""

    name = "promises"
    places: ClassVar[list[str]] = []

    @hookimpl
    def on_session_close(self, session: Session) -> None:
        waiting = (job.with_status(TaskStatus.PIPELINED).values() for job in session.jobs.values())
        Promises.places[:] = [task.node_name for tasks in waiting for task in tasks]


@given(
    st.lists(st.tuples(st.sampled_from(["n1", "n2"]), st.integers(1, 3), st.integers(0, 1)), min_size=1, max_size=8),
    st.integers(1, 4),
    st.integers(1, 3),
)
def test_victims_are_evicted_only_if_a_gang_needs_each_of_them(
    victims: list[tuple[str, int, int]], size: int, cpu: int
) -> None:
    used = Counter({"n1": 0, "n2": 0})
    gangs = []
    for n, (node, amount, minimum) in enumerate(victims):
        used[node] += amount
        gangs.append(yours(1, minimum=minimum, cpu=amount, on=node, name=f"yours{n}"))
    nodes = [make_node(name, cpu=amount + 1) for name, amount in used.items()]
    stage = staged(nodes, *gangs, mine(size, cpu=cpu), configuration=WATCHED)
    gone = {name: stage.task(name) for name in stage.evicted}
    assert all(task.job.min_available == 0 for task in gone.values())
    if not gone:
        return
    # Of the promised places some would be lost if any one of them had stayed.
    free = Counter({node.metadata.name: used[node.metadata.name] + 1 for node in nodes})
    for n, (node, amount, _) in enumerate(victims):
        free[node] -= 0 if f"yours{n}-0" in gone else amount
    for node in Promises.places:
        free[node] -= cpu
    assert len(Promises.places) == size and min(free.values()) >= 0
    assert all(free[victims[int(name[5:-2])][0]] < task.request["cpu"] // 1000 for name, task in gone.items())
    stage.finish_evictions()
    assert len(stage.session().bound) == size
