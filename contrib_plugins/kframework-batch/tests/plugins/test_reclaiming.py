"""Queues do not take the same room from each other in turn: whatever they are, sessions come to an end of taking back.

The cluster is one pool, and every action is written down in its simplest form. What was taken is only promised: it is
up to the next session, in its order of queues, who gets it; and who had to go asks for room again at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.plugin import BatchArguments, BatchPlugin
from kframework_batch.plugins.capacity import Capacity, CapacityArguments
from kframework_batch.plugins.drf import Drf
from kframework_batch.plugins.proportion import Proportion
from kframework_batch.queue import QueueInfo
from kframework_batch.resource import Resource
from kframework_batch.session_view import SessionView
from kframework_batch.task_status import TaskStatus
from kframework_batch.testing import make_queue

from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PodInfo
from kframework.testing import make_pod

GPU = "nvidia.com/gpu"


@dataclass
class Pool:
    """A cluster without nodes, and one plugin that says what queues may have. `moves` are who took from whom."""

    plugin: BatchPlugin
    total: Resource
    queues: dict[str, QueueInfo]
    jobs: dict[str, JobInfo]
    now: float = 0.0
    moves: list[tuple[str, str]] = field(default_factory=list)

    @property
    def tasks(self) -> list[TaskInfo]:
        return [task for job in self.jobs.values() for task in job.tasks.values()]

    @property
    def running(self) -> frozenset[str]:
        return frozenset(task.uid for task in self.tasks if task.status is TaskStatus.RUNNING)

    @property
    def used(self) -> Resource:
        used = Resource()
        for job in self.jobs.values():
            used.add(job.allocated)
        return used

    @property
    def idle(self) -> Resource:
        return self.total.minus(self.used)

    def held(self, queue: str) -> int:
        return sum(job.allocated.get("cpu", 0) for job in self.jobs.values() if job.queue == queue)

    def ask(self, hook: str, *arguments: object, default: object) -> object:
        asked: Callable[..., object] | None = getattr(self.plugin, hook, None)
        return default if asked is None else asked(cast("SessionView", self), *arguments)

    def open(self) -> None:
        list(cast("Iterable[None] | None", self.ask("on_session_open", default=None)) or ())

    def session(self) -> None:
        """Place what can be placed, then take back; promises are taken back at the end."""
        self.open()
        for task in self._by_queue(lambda task: True):
            if self.ask("allocatable", self.queues[task.job.queue], task, default=True) and task.request.fits(
                self.idle
            ):
                task.job.update_status(task, TaskStatus.RUNNING)
                self.ask("allocated", task, default=None)
        promised = Resource()
        for task in self._by_queue(lambda task: bool(self.preemptive(task))):
            if self.preemptive(task):
                self._take_back(task, promised)

    def preemptive(self, task: TaskInfo) -> object:
        return self.ask("preemptive", self.queues[task.job.queue], task, default=True)

    def _by_queue(self, wanted: Callable[[TaskInfo], bool]) -> Iterator[TaskInfo]:
        """Hand out pending tasks, each once, the next of the queue that comes first by then."""
        waiting: dict[str, list[TaskInfo]] = {}
        for task in self.tasks:
            if task.status is TaskStatus.PENDING and wanted(task):
                waiting.setdefault(task.job.queue, []).append(task)
        while waiting:
            name = min(waiting, key=lambda name: (self.ask("queue_order", self.queues[name], default=0), name))
            yield waiting[name].pop(0)
            if not waiting[name] or self.ask("overused", self.queues[name], default=False):
                del waiting[name]

    def _take_back(self, reclaimer: TaskInfo, promised: Resource) -> None:
        others = [
            task for task in self.tasks if task.status is TaskStatus.RUNNING and task.job.queue != reclaimer.job.queue
        ]
        victims = self.ask("reclaimable", reclaimer, others, default=[])
        assert isinstance(victims, Sequence)
        free, chosen = self.idle.minus(promised), []
        for victim in victims:
            if reclaimer.request.fits(free):
                break
            chosen.append(victim)
            free.add(victim.request)
        if not chosen or not reclaimer.request.fits(free):
            return
        for victim in chosen:
            victim.job.update_status(victim, TaskStatus.PENDING)
            self.ask("deallocated", victim, default=None)
            self.moves.append((reclaimer.job.queue, victim.job.queue))
        promised.add(reclaimer.request)
        self.ask("allocated", reclaimer, default=None)

    def come_to_rest(self) -> bool:
        """Run sessions until nothing changes; False if they turn in a circle, so that they would never end."""
        seen: set[frozenset[str]] = set()
        while True:
            before, moves = self.running, len(self.moves)
            if before in seen:
                return False
            seen.add(before)
            self.session()
            if self.running == before and len(self.moves) == moves:
                return True


def pool(
    plugin: BatchPlugin, total: Resource, queues: Sequence[QueueInfo], tasks: Sequence[tuple[str, bool, Resource]]
) -> Pool:
    """Make a pool of tasks: the queue, whether it runs if there is room, and what it asks for."""
    made = Pool(plugin, total, {queue.name: queue for queue in queues}, {})
    for at, (queue, runs, request) in enumerate(tasks):
        job = JobInfo("default", f"j{at:02}")
        job.queue, job.min_available = queue, 1
        pod = make_pod(f"p{at}", cpu=None, memory=None)
        task = TaskInfo(job, PodInfo(pod, TemplateInterner()), pod, TaskStatus.PENDING)
        task.uid, task.request = job.uid, request
        job.add(task)
        if runs and request.fits(made.idle):
            job.update_status(task, TaskStatus.RUNNING)
        made.jobs[job.uid] = job
    return made


def capacity(*, tree: bool = False, level: int = 0) -> Capacity:
    made = Capacity(CapacityArguments(ancestor_reclaim_level=level))
    made.hierarchical = tree
    return made


def drf_tree() -> Drf:
    made = Drf(BatchArguments())
    made.hierarchical = True
    return made


PLUGINS: dict[str, Callable[[], BatchPlugin]] = {
    "proportion": lambda: Proportion(BatchArguments()),
    "capacity": capacity,
    "capacity, tree": lambda: capacity(tree=True),
    "capacity, tree, one level": lambda: capacity(tree=True, level=1),
    "drf, tree": drf_tree,
}

amounts = st.fixed_dictionaries({}, optional={name: st.integers(0, 8) for name in ("cpu", "memory", GPU)})
requests = st.fixed_dictionaries({}, optional={name: st.integers(1, 4) for name in ("cpu", "memory", GPU)})


@st.composite
def queue_lists(draw: st.DrawFn, resources: st.SearchStrategy[dict[str, int]] = amounts) -> list[QueueInfo]:
    made = []
    for name in ("a", "b", "c", "d")[: draw(st.integers(2, 4))]:
        deserved, guarantee = draw(resources), draw(st.just({}) | resources)
        queue = make_queue(
            name,
            weight=draw(st.integers(1, 3)),
            priority=draw(st.sampled_from([0, 0, 7])),
            parent=draw(st.sampled_from(["", "x", "y"])),
            annotations={"volcano.sh/hierarchy": f"root/{draw(st.sampled_from('xy'))}/{name}"},
        )
        made.append(_with(queue, deserved, guarantee, draw(st.just({}) | resources)))
    inner = [_with(make_queue(name), draw(st.just({}) | resources), {}, {}) for name in ("x", "y")]
    return [*made, *inner]


def _with(queue: object, deserved: dict[str, int], guarantee: dict[str, int], capability: dict[str, int]) -> QueueInfo:
    made = QueueInfo(queue)  # type: ignore[arg-type]  # what make_queue makes
    made.deserved, made.guarantee, made.capability = Resource(deserved), Resource(guarantee), Resource(capability)
    return made


@pytest.mark.parametrize("name", PLUGINS)
@given(data=st.data())
def test_reclaim_terminates(name: str, data: st.DataObject) -> None:
    queues = data.draw(queue_lists())
    of = st.sampled_from([queue.name for queue in queues if queue.name not in "xy"])
    tasks = data.draw(st.lists(st.tuples(of, st.booleans(), requests.map(Resource)), max_size=12))
    total = Resource(data.draw(amounts))
    assert pool(PLUGINS[name](), total, queues, tasks).come_to_rest()


@pytest.mark.parametrize("asked", [{}, {"memory": 1}], ids=["nothing", "what is not there"])
def test_unservable_job_does_not_keep_its_queue_first(asked: dict[str, int]) -> None:
    queues, one = [QueueInfo(make_queue(name)) for name in "ab"], Resource({"cpu": 1})
    tasks = [("b", False, Resource(asked)), ("a", False, one), ("b", False, one)]
    assert pool(PLUGINS["drf, tree"](), one, queues, tasks).come_to_rest()


def test_queue_does_not_reclaim_what_the_other_would_get_again() -> None:
    queues = [QueueInfo(make_queue(name)) for name in "ab"]
    whole, cpu, memory = (Resource(asked) for asked in ({"cpu": 1, "memory": 1}, {"cpu": 1}, {"memory": 1}))
    tasks = [("a", False, whole), ("b", False, cpu), ("b", False, memory)]
    assert pool(PLUGINS["drf, tree"](), whole, queues, tasks).come_to_rest()


class ByPriority(Capacity):
    """The naive rule: higher priority is served first, and a queue above its share gives way."""

    def queue_order(self, session: SessionView, queue: QueueInfo) -> object:  # type: ignore[override]  # keys of its own
        return -queue.priority, self._chains[queue.name][0].share

    def _goes_before(self, session: SessionView, reclaimer: TaskInfo, victim: TaskInfo) -> bool:
        return True


@pytest.mark.parametrize(("make", "ends"), [(ByPriority, False), (Capacity, True)])
def test_queue_of_high_priority_does_not_regain_reclaimed_room_at_once(make: type[Capacity], ends: bool) -> None:
    two = {"cpu": 2}
    queues = [_with(make_queue("high", priority=7), two, {}, {}), _with(make_queue("low"), two, {}, {})]
    one = Resource({"cpu": 1})
    tasks = [*[("high", True, one)] * 4, *[("low", False, one)] * 3]
    made = pool(make(CapacityArguments()), Resource({"cpu": 4}), queues, tasks)
    assert made.come_to_rest() is ends
    assert not ends or made.held("low") == made.held("high") == 2


@pytest.mark.parametrize("name", ["proportion", "capacity", "capacity, tree", "capacity, tree, one level"])
@given(
    due=st.lists(st.integers(0, 5), min_size=2, max_size=4),
    wanted=st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=20),
)
def test_each_queue_ends_with_its_deserved_share(name: str, due: list[int], wanted: list[tuple[int, bool]]) -> None:
    queues = [_with(make_queue(f"q{at}"), {"cpu": amount}, {}, {}) for at, amount in enumerate(due)]
    one = Resource({"cpu": 1})
    tasks = [(f"q{place % len(due)}", runs, one) for place, runs in wanted]
    made = pool(PLUGINS[name](), Resource({"cpu": sum(due)}), queues, tasks)
    assert made.come_to_rest()
    for queue, amount in zip(made.queues, due, strict=True):
        asked = sum(task[0] == queue for task in tasks)
        least = min(asked, sum(due) // len(due) if name == "proportion" else amount)
        assert made.held(queue) >= least


@pytest.mark.parametrize("name", ["proportion", "capacity"])
@given(data=st.data())
def test_no_queue_reclaims_what_was_reclaimed_from_it(name: str, data: st.DataObject) -> None:
    queues = data.draw(queue_lists(st.fixed_dictionaries({"cpu": st.integers(1, 12)})))
    of = st.sampled_from([queue.name for queue in queues if queue.name not in "xy"])
    sizes = st.integers(1, 4).map(lambda cpu: Resource({"cpu": cpu}))
    tasks = data.draw(st.lists(st.tuples(of, st.booleans(), sizes), max_size=14))
    made = pool(PLUGINS[name](), Resource({"cpu": data.draw(st.integers(0, 16))}), queues, tasks)
    assert made.come_to_rest()
    assert not {(loser, taker) for taker, loser in made.moves} & set(made.moves)


def answers(pool: Pool) -> list[object]:
    """Ask everything that depends on what queues and jobs hold."""
    queues, tasks = pool.queues.values(), pool.tasks
    return [
        *[pool.ask("queue_order", queue, default=None) for queue in queues],
        *[pool.ask("overused", queue, default=None) for queue in queues],
        *[pool.ask("job_order", job, default=None) for job in pool.jobs.values()],
        *[pool.ask("allocatable", queue, task, default=None) for queue in queues for task in tasks],
        *[pool.ask("preemptive", queue, task, default=None) for queue in queues for task in tasks],
        *[pool.ask("reclaimable", task, tasks, default=None) for task in tasks],
        *[pool.ask("preemptable", task, tasks, default=None) for task in tasks],
    ]


def drawn(name: str, data: st.DataObject) -> Pool:
    queues = data.draw(queue_lists())
    of = st.sampled_from([queue.name for queue in queues if queue.name not in "xy"])
    tasks = data.draw(st.lists(st.tuples(of, st.booleans(), requests.map(Resource)), min_size=1, max_size=8))
    made = pool(PLUGINS[name](), Resource(data.draw(amounts)), queues, tasks)
    made.open()
    return made


@pytest.mark.parametrize("name", PLUGINS)
@given(data=st.data())
def test_undone_operations_leave_no_trace(name: str, data: st.DataObject) -> None:
    made = drawn(name, data)
    before = answers(made)
    assert answers(made) == before
    changed = [task for task in made.tasks if data.draw(st.booleans())]
    for task in changed:
        made.ask("deallocated" if task.status is TaskStatus.RUNNING else "allocated", task, default=None)
        if data.draw(st.booleans()):
            answers(made)
    for task in data.draw(st.permutations(changed)):
        made.ask("allocated" if task.status is TaskStatus.RUNNING else "deallocated", task, default=None)
    assert answers(made) == before


@pytest.mark.parametrize("name", ["capacity", "capacity, tree", "drf, tree"])
@given(data=st.data())
def test_accounts_equal_those_of_a_new_session(name: str, data: st.DataObject) -> None:
    made = drawn(name, data)
    for task in made.tasks:
        if data.draw(st.booleans()):
            answers(made)
            runs = task.status is TaskStatus.RUNNING
            task.job.update_status(task, TaskStatus.PENDING if runs else TaskStatus.RUNNING)
            made.ask("deallocated" if runs else "allocated", task, default=None)
    noted = answers(made)
    made.open()
    assert answers(made) == noted
