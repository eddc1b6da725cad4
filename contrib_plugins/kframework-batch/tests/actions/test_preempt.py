"""preempt: which pods of a queue are evicted for which, and that every eviction helps a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kframework_batch.actions.preempt import PreemptArguments, cost
from kframework_batch.plugin import BatchPlugin, hookimpl
from kframework_batch.session import Session
from kframework_batch.task_status import TaskStatus
from kframework_batch.testing import Gang, Stage, make_gang, make_group, make_node, make_queue, make_task
from msgspec.structs import replace

from kframework.clock import VIRTUAL_EPOCH, rfc3339
from kframework.objects import Node, ObjectMeta, Pod, PodCondition, PriorityClass
from kframework.observe.recording.annotations import guard_annotations, without_values
from kframework.testing import make_pod

CONFIGURATION = """
actions: "allocate, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: nodeorder
"""

#: With a plugin that notes what is promised (see below).
WATCHED = CONFIGURATION + "  - name: promises\n"

#: Without gangs a job starves as long as any task of it has no room.
WITHOUT_GANG = CONFIGURATION.replace("  - name: gang\n", "")

CLASSES = [PriorityClass(metadata=ObjectMeta(name=f"p{value}"), value=value) for value in (1, 5, 9)]


@pytest.fixture(autouse=True)
def _sessions_run_to_their_end(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Fail where an action has raised: a session that ends early looks like one that found nothing."""
    yield
    assert "ended early" not in caplog.text


def staged(
    nodes: Sequence[Node], *gangs: Gang, configuration: str = CONFIGURATION, objects: Sequence[Pod] = (), seed: int = 0
) -> Stage:
    """Run a session; the default queue is all there is, and one that is called other."""
    return Stage(
        configuration,
        nodes=nodes,
        queues=[make_queue("default"), make_queue("other")],
        gangs=gangs,
        objects=[*CLASSES, *objects],
        classes=[Promises],
        seed=seed,
    ).session()


def counts(stage: Stage) -> Counter[str]:
    """Count the victims of each job."""
    return Counter(name.rpartition("-")[0] for name in stage.evicted)


def low(size: int, *, minimum: int = 1, on: str = "n1", name: str = "low", **more: object) -> Gang:
    """Make a running job of low priority."""
    return make_gang(name, size, minimum=minimum, on=[on] * size, priority_class="p1", **more)  # type: ignore[arg-type]  # whatever make_gang takes


def high(size: int, *, minimum: int | None = None, name: str = "high", **more: object) -> Gang:
    """Make a waiting job of high priority."""
    return make_gang(name, size, minimum=minimum, priority_class="p9", **more)  # type: ignore[arg-type]  # whatever make_gang takes


def test_job_of_higher_priority_preempts_what_it_needs_and_replaces_its_victims() -> None:
    stage = staged([make_node("n1", cpu=4)], low(4), high(2))
    assert counts(stage) == {"low": 2}
    assert set(stage.evicted.values()) == {"preempt"}
    assert stage.bound == {}
    stage.finish_evictions()
    assert sorted(stage.session().bound) == ["high-0", "high-1"]
    assert counts(stage) == {"low": 2}


def test_preemptor_waits_while_victims_terminate() -> None:
    stage = staged([make_node("n1", cpu=4)], low(4), high(2)).session(3)
    assert counts(stage) == {"low": 2}


@pytest.mark.parametrize(
    ("victims", "waiting", "evicted"),
    [
        pytest.param(low(4, minimum=4), high(2), 0, id="a gang keeps its minimum"),
        pytest.param(low(4, minimum=3), high(2), 0, id="it can spare one, two are needed"),
        pytest.param(low(4, minimum=3), high(2, minimum=1), 1, id="it can spare one, one is needed"),
        pytest.param(low(4), high(5), 0, id="all of them are not enough"),
        pytest.param(low(4, queue="other"), high(2), 0, id="another queue"),
        pytest.param(make_gang("low", 4, minimum=1, on=["n1"] * 4, priority_class="p9"), high(2), 0, id="as important"),
        pytest.param(low(4), high(1, cpu=None), 0, id="for best effort nobody goes"),
        pytest.param(low(4), high(2, phase="Pending"), 0, id="not let in"),
        pytest.param(low(4), high(2, minimum=3), 0, id="not valid"),
    ],
)
def test_number_of_victims(victims: Gang, waiting: Gang, evicted: int) -> None:
    alone = CONFIGURATION.replace("allocate, preempt", "preempt")
    stage = staged([make_node("n1", cpu=4)], victims, waiting, configuration=alone)
    assert len(stage.evicted) == evicted


@pytest.mark.parametrize(
    "task",
    [
        pytest.param(
            make_task("low-0", "low", node="n1", annotations={"volcano.sh/preemptable": "false"}), id="guarded"
        ),
        pytest.param(make_task("low-0", "low", node="n1", cpu=None), id="it frees nothing"),
    ],
)
def test_pods_that_are_not_evicted(task: Pod) -> None:
    group = make_group("low", minimum=0, phase="Running", priority_class="p1")
    blocker = make_gang("blocker", 1, cpu=3, on=["n1"], priority_class="p9")
    stage = staged([make_node("n1", cpu=3)], (group, [task]), blocker, high(1))
    assert stage.evicted == {}


def test_preemption_policy_never_is_respected() -> None:
    waiting = make_group("high", priority_class="p9"), [make_task("high-0", "high", preemption_policy="Never")]
    assert staged([make_node("n1")], low(4), waiting).evicted == {}


def test_pods_of_lowest_priority_are_evicted_first() -> None:
    middle = make_gang("middle", 2, minimum=0, on=["n1"] * 2, priority_class="p5")
    first = make_task("low-0", "low", node="n1", priority=3), make_task("low-1", "low", node="n1", priority=2)
    group = make_group("low", minimum=0, phase="Running", priority_class="p1")
    nodes = [make_node("n1", cpu=4)]
    assert list(staged(nodes, middle, (group, [*first]), high(1)).evicted) == ["low-1"]
    assert counts(staged(nodes, middle, (group, [*first]), high(3))) == {"low": 2, "middle": 1}


def test_victim_is_kept_when_a_larger_one_is_enough() -> None:
    # The small one is the first to go, and does not help: with it gone too little is free, with the large one enough.
    small = make_gang("small", 1, minimum=0, cpu=1, on=["n1"], priority_class="p1")
    large = make_gang("large", 1, minimum=0, cpu=3, on=["n1"], priority_class="p5")
    assert list(staged([make_node("n1", cpu=4)], small, large, high(1, cpu=3)).evicted) == ["large-0"]


def test_room_of_one_victim_is_used_by_all_tasks_that_fit() -> None:
    nodes = [make_node("n1", cpu=4), make_node("n2", cpu=4)]
    victims = [make_gang(f"low{n}", 1, minimum=0, cpu=4, on=[f"n{n}"], priority_class="p1") for n in (1, 2)]
    assert len(staged(nodes, *victims, high(4)).evicted) == 1


def test_idle_room_counts_before_eviction() -> None:
    nodes = [make_node("n1", cpu=4), make_node("n2", cpu=2)]
    stage = staged(nodes, low(4), low(1, on="n2", name="more"), high(2))
    assert len(stage.evicted) == 1


def test_victim_of_first_task_is_kept_when_victim_of_second_task_is_enough_for_both() -> None:
    small = make_gang("small", 1, minimum=0, cpu=1, on=["n1"], priority_class="p1")
    large = make_gang("large", 1, minimum=0, cpu=3, on=["n1"], priority_class="p5")
    stage = staged([make_node("n1", cpu=5)], small, large, high(4))
    assert list(stage.evicted) == ["large-0"]
    stage.finish_evictions()
    assert len(stage.session().bound) == 4


def test_job_that_needs_no_victim_is_left_to_allocate() -> None:
    alone = CONFIGURATION.replace("allocate, preempt", "preempt, allocate")
    stage = staged([make_node("n1", cpu=4)], low(2), high(2), configuration=alone)
    assert (sorted(stage.bound), stage.evicted) == (["high-0", "high-1"], {})


def test_nothing_is_evicted_from_nodes_that_reject_the_task() -> None:
    nodes = [make_node("n1", taints=["dedicated=x:NoSchedule"]), make_node("n2")]
    stage = staged(nodes, low(4), low(4, on="n2", name="also"), high(1))
    assert counts(stage) == {"also": 1}


def test_node_rejected_only_because_of_victims_is_used() -> None:
    # By amounts anybody would do; the port is held by one of them.
    group = make_group("low", minimum=0, phase="Running", priority_class="p1")
    pods = [make_task(f"low-{n}", "low", node="n1", host_ports=[80] if n == 1 else []) for n in range(4)]
    waiting = make_group("high", priority_class="p9"), [make_task("high-0", "high", host_ports=[80])]
    assert list(staged([make_node("n1", cpu=4)], (group, pods), waiting).evicted) == ["low-1"]


def test_queue_with_its_deserved_share_preempts_within_itself() -> None:
    # There is room on n2, but the queue may not have it.
    queue = make_queue("default", capability={"cpu": 4})
    configuration = CONFIGURATION + "  - name: proportion\n"
    stage = Stage(
        configuration,
        nodes=[make_node("n1", cpu=4), make_node("n2", cpu=4)],
        queues=[queue],
        gangs=[low(4), high(2)],
        objects=CLASSES,
    ).session()
    assert counts(stage) == {"low": 2}


def going(name: str, *, priority: int = 0, disrupted: bool = True) -> Pod:
    """Make a pod that is on its way out of n1, as a victim of preemption if `disrupted`."""
    pod = make_pod(name, cpu=1, node_name="n1", priority=priority, deletion_timestamp="2026-01-01T00:00:00Z")
    told = PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
    return replace(pod, status=replace(pod.status, phase="Running", conditions=(told,) if disrupted else ()))


@pytest.mark.parametrize(
    ("nominated", "other", "evicted"),
    [
        pytest.param("n1", going("victim"), 0, id="one is going"),
        pytest.param("n1", going("victim", disrupted=False), 2, id="it goes for another reason"),
        pytest.param("n1", going("victim", priority=100), 2, id="it is more important"),
        pytest.param("n2", going("victim"), 2, id="it goes from elsewhere"),
        pytest.param("n3", going("victim"), 2, id="the node is gone"),
        pytest.param("", going("victim"), 2, id="no node was cleared"),
    ],
)
def test_task_that_waits_for_victims_preempts_no_more(nominated: str, other: Pod, evicted: int) -> None:
    pod = make_task("high-0", "high", cpu=3, priority=50, nominated_node_name=nominated)
    nodes = [make_node("n1", cpu=4), make_node("n2", cpu=1)]
    stage = staged(nodes, low(3), (make_group("high", priority_class="p9"), [pod]), objects=[other])
    assert len(stage.evicted) == evicted


def test_task_nominated_to_cordoned_node_may_preempt_elsewhere() -> None:
    pod = make_task("high-0", "high", cpu=3, priority=50, nominated_node_name="n1")
    nodes = [make_node("n1", cpu=4, unschedulable=True), make_node("n2", cpu=3)]
    waiting = make_group("high", priority_class="p9"), [pod]
    stage = staged(nodes, low(3, minimum=0, on="n2"), waiting, objects=[going("victim")])
    assert len(stage.evicted) == 3


def mixed(pending: int, *, minimum: int = 1) -> Gang:
    """Make a job with two running tasks and one that waits, of this priority."""
    pods = [make_task(f"a-{n}", "a", node="n1", priority=n) for n in range(2)]
    return make_group("a", minimum=minimum, phase="Running"), [*pods, make_task("a-2", "a", priority=pending)]


@pytest.mark.parametrize(
    ("pending", "evicted"),
    [(9, ["a-0"]), (1, ["a-0"]), (0, [])],
    ids=["more important", "than one of them", "as important"],
)
def test_job_preempts_its_own_tasks_of_lower_priority(pending: int, evicted: list[str]) -> None:
    stage = staged([make_node("n1", cpu=2)], mixed(pending), configuration=WITHOUT_GANG)
    assert list(stage.evicted) == evicted


def test_other_jobs_are_preempted_before_tasks_of_the_same_job() -> None:
    gang = mixed(9)
    group = replace(gang[0], spec=replace(gang[0].spec, priority_class_name="p9"))
    stage = staged([make_node("n1", cpu=3)], low(1), (group, gang[1]), configuration=WITHOUT_GANG)
    assert list(stage.evicted) == ["low-0"]


def test_running_gang_is_not_starving() -> None:
    assert staged([make_node("n1", cpu=2)], mixed(9)).evicted == {}


COMPARED = (
    WATCHED
    + """
configurations:
- name: preempt
  arguments:
    enableTopologyAwarePreemption: true
    minCandidateNodesPercentage: 100
"""
)


def victim(name: str, node: str, *, priority: int = 0, cpu: int = 1, started: float | None = None) -> Pod:
    """Make a pod of the job low that started this many seconds ago."""
    start = None if started is None else rfc3339(VIRTUAL_EPOCH - started)
    return make_task(name, "low", node=node, priority=priority, cpu=cpu, start_time=start)


@pytest.mark.parametrize(
    ("on_n1", "on_n2"),
    [
        pytest.param([victim("a", "n1", priority=2, cpu=2)], [victim("b", "n2", priority=1, cpu=2)], id="priority"),
        pytest.param(
            [victim("a", "n1", priority=2), victim("b", "n1", priority=1)],
            [victim("c", "n2", priority=2), victim("d", "n2", priority=0)],
            id="their sum",
        ),
        pytest.param([victim("a", "n1"), victim("b", "n1")], [victim("c", "n2", cpu=2)], id="number"),
        pytest.param([victim("a", "n1", cpu=2, started=90)], [victim("b", "n2", cpu=2, started=60)], id="start"),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_cheapest_victims_are_evicted(on_n1: list[Pod], on_n2: list[Pod], seed: int) -> None:
    nodes = [make_node("n1", cpu=2), make_node("n2", cpu=2)]
    group = make_group("low", minimum=0, phase="Running", priority_class="p1")
    stage = staged(nodes, (group, [*on_n1, *on_n2]), high(1, cpu=2), configuration=COMPARED, seed=seed)
    assert sorted(stage.evicted) == sorted(pod.metadata.name for pod in on_n2)


def test_nothing_is_evicted_without_benefit_when_nodes_are_compared() -> None:
    nodes = [make_node("n1", cpu=4), make_node("n2", cpu=4)]
    stage = staged(nodes, low(4), low(4, on="n2", name="also"), high(4, minimum=4), configuration=COMPARED)
    assert len(stage.evicted) == 4
    stage.finish_evictions()
    assert len(stage.session().bound) == 4
    assert len(stage.evicted) == 4


@pytest.mark.parametrize(
    ("arguments", "nodes", "wanted"),
    [
        ({}, 5, 1),
        ({}, 55, 5),
        ({}, 5000, 100),
        ({"minCandidateNodesPercentage": 50}, 9, 4),
        ({"minCandidateNodesAbsolute": 7}, 20, 7),
        ({"minCandidateNodesAbsolute": 7}, 3, 3),
        ({"maxCandidateNodesAbsolute": "2"}, 5000, 2),
        ({"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0}, 5, 1),
    ],
)
def test_number_of_compared_nodes(arguments: Mapping[str, object], nodes: int, wanted: int) -> None:
    assert PreemptArguments.model_validate(arguments).wanted(nodes) == wanted


def test_additional_victim_is_never_cheaper() -> None:
    stage = staged([make_node("n1")], make_gang("a", 2, priority=-5, on=["n1", "n1"]))
    first, second = (stage.task(f"a-{n}") for n in range(2))
    assert cost([first], 0.0) < cost([first, second], 0.0)


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
    st.booleans(),
)
def test_victims_are_evicted_only_if_a_gang_needs_each_of_them(
    victims: list[tuple[str, int, int]], size: int, cpu: int, compared: bool
) -> None:
    used = Counter({"n1": 0, "n2": 0})
    gangs = []
    for n, (node, amount, minimum) in enumerate(victims):
        used[node] += amount
        gangs.append(make_gang(f"low{n}", 1, minimum=minimum, cpu=amount, on=[node], priority_class="p1"))
    nodes = [make_node(name, cpu=amount + 1) for name, amount in used.items()]
    stage = staged(nodes, *gangs, high(size, cpu=cpu), configuration=COMPARED if compared else WATCHED)
    gone = {name: stage.task(name) for name in stage.evicted}
    assert all(task.job.min_available == 0 for task in gone.values())
    if not gone:
        return
    # Of the promised places some would be lost if any one of them had stayed.
    free = Counter({node.metadata.name: used[node.metadata.name] + 1 for node in nodes})
    for n, (node, amount, _) in enumerate(victims):
        free[node] -= 0 if f"low{n}-0" in gone else amount
    for node in Promises.places:
        free[node] -= cpu
    assert len(Promises.places) == size and min(free.values()) >= 0
    assert all(free[victims[int(name[3:-2])][0]] < task.request["cpu"] // 1000 for name, task in gone.items())
    stage.finish_evictions()
    assert len(stage.session().bound) == size


def test_annotations_without_recorded_values_are_compared_but_not_read() -> None:
    group, pods = make_gang("high", 2, priority_class="p9", annotations={"example.com/token": "secret"})
    guarded_group = guard_annotations(without_values(group, lambda key: False, lambda text: "0" * 24))
    assert counts(staged([make_node("n1", cpu=4)], low(4), (guarded_group, pods))) == {"low": 2}


def test_choice_of_a_node_is_forgotten_when_victims_are_selected() -> None:
    """A choice of allocate, made before other pods took that room, does not explain preempt's choice of the node."""
    stage = staged(
        [make_node("n1", cpu=2)],
        low(1, minimum=0),
        high(3, minimum=2, age=9.0),
        make_gang("between", 1, priority_class="p5"),
    )
    allocate, preempt = stage.accounts[0].turns_of("default/high")[:2]
    assert [(one.node, one.feasible) for one in allocate.verdicts if one.node] == [("n1", 1)]
    assert [(one.node, one.feasible) for one in preempt.verdicts if one.node] == [("n1", 0)]


def test_task_without_node_after_preemption_has_a_message() -> None:
    """A place that preempt had for it, and gave back, counts no more when allocate finds none."""
    stage = Stage(
        CONFIGURATION.replace("allocate, preempt", "preempt, allocate"),
        nodes=[make_node("n1", cpu=1)],
        gangs=[make_gang("first", 1, priority_class="p9"), make_gang("second", 1, priority_class="p5")],
        objects=CLASSES,
    ).session()
    assert set(stage.bound) == {"first-0"}
    assert stage.message("second-0") == "0/1 nodes are available: 1 Insufficient cpu."
