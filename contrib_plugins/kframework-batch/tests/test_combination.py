"""How many answers become one: compared with Volcano's own walks through the tiers, written down slowly."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kframework_batch.combination import CombinedPlugins, Descending
from kframework_batch.hookspecs import SPECIFICATIONS
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.objects import Queue
from kframework_batch.plugin import BatchArguments, BatchPlugin, Vote, hookimpl
from kframework_batch.queue import QueueInfo
from kframework_batch.session import Session
from kframework_batch.task_status import TaskStatus
from kframework_batch.tiers import EnabledPlugin, Tiers

from kframework.errors import PluginError
from kframework.objects import ObjectMeta
from kframework.state.pod_templates import TemplateInterner
from kframework.state.pods import PendingPod
from kframework.testing import make_pod
from kframework.values.status import Code, Status, unresolvable, unschedulable

T = TypeVar("T")

#: What plugins are handed and these hand back to nobody.
SESSION = cast("Session", object())

SPECIFIED = {hook: member for protocol in SPECIFICATIONS for hook, member in vars(protocol).items()}


class Scripted(BatchPlugin):
    """A plugin whose hooks give the answers that it holds: a value, or what a function makes of the arguments."""

    answers: Mapping[str, object]


def scripted(plugin_name: str = "probe", **answers: object) -> BatchPlugin:
    plugin = _kind(plugin_name, frozenset(answers))(BatchArguments())
    plugin.answers = answers
    return plugin


@functools.cache  # what it costs to check a plugin is paid once per class
def _kind(plugin_name: str, hooks: frozenset[str]) -> type[Scripted]:
    return type(plugin_name.title(), (Scripted,), {"name": plugin_name, **{hook: _hook(hook) for hook in hooks}})


def _hook(hook: str) -> object:
    @functools.wraps(SPECIFIED[hook])
    def method(self: Scripted, session: Session, *arguments: object) -> object:
        assert session is SESSION
        answer = self.answers[hook]
        return answer(*arguments) if callable(answer) else answer

    return hookimpl(method)


def combination(*tiers: Sequence[BatchPlugin]) -> CombinedPlugins:
    return CombinedPlugins(Tiers([[EnabledPlugin(plugin) for plugin in tier] for tier in tiers]), SESSION)


def answering(hook: str, tiers: Sequence[Sequence[object]]) -> CombinedPlugins:
    """Combine plugins that give these answers at a hook; `...` for one that does not have it."""
    return combination(
        *([scripted("probe", **({} if answer is ... else {hook: answer})) for answer in tier] for tier in tiers)
    )


def job(name: str, created: str = "") -> JobInfo:
    info = JobInfo("ns", name)
    info.created = created
    return info


def task(name: str, created: str = "", index: int | None = None) -> TaskInfo:
    pod = make_pod(name, labels={} if index is None else {"volcano.sh/task-index": str(index)})
    info = TaskInfo(job("j"), PendingPod(pod, TemplateInterner()), pod, TaskStatus.PENDING)
    info.uid, info.created = name, created
    return info


def queue(name: str, created: str = "") -> QueueInfo:
    return QueueInfo(Queue(metadata=ObjectMeta(name=name, uid=name, creation_timestamp=created)))


JOB, QUEUE, TASK = job("j"), queue("q"), task("t")

NAMES = "abcdef"
TIMES = st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"])


def in_tiers(answers: st.SearchStrategy[T]) -> st.SearchStrategy[list[list[T]]]:
    return st.lists(st.lists(answers, max_size=3), max_size=3)


#: For each plugin, the key of each thing by its name; few, so that many are equal.
KEYS = st.fixed_dictionaries({name: st.integers(0, 2) for name in NAMES})


def volcanos_order(
    things: Sequence[T],
    tiers: Sequence[Sequence[Mapping[str, int]]],
    name: Callable[[T], str],
    ties: Callable[[T], object],
) -> list[T]:
    """Sort as Volcano does: two are compared by each plugin in turn until one tells them apart."""

    def compare(left: T, right: T) -> int:
        for tier in tiers:
            for keys in tier:
                difference = keys[name(left)] - keys[name(right)]
                if difference:
                    return difference
        return -1 if ties(left) < ties(right) else 1  # type: ignore[operator]  # tuples of texts and numbers

    return sorted(things, key=functools.cmp_to_key(compare))


@given(in_tiers(KEYS), st.lists(TIMES, min_size=6, max_size=6))
def test_jobs_are_ordered_like_in_volcano(tiers: list[list[dict[str, int]]], times: list[str]) -> None:
    jobs = [job(name, created) for name, created in zip(NAMES, times, strict=True)]
    plugins = answering("job_order", [[lambda job, keys=keys: keys[job.name] for keys in tier] for tier in tiers])

    expected = volcanos_order(jobs, tiers, lambda job: job.name, lambda job: (job.created, job.uid))
    assert sorted(jobs, key=plugins.job_key) == expected


@given(in_tiers(KEYS), st.lists(TIMES, min_size=6, max_size=6))
def test_queues_are_ordered_like_in_volcano(tiers: list[list[dict[str, int]]], times: list[str]) -> None:
    queues = [queue(name, created) for name, created in zip(NAMES, times, strict=True)]
    plugins = answering("queue_order", [[lambda queue, keys=keys: keys[queue.name] for keys in tier] for tier in tiers])

    expected = volcanos_order(queues, tiers, lambda queue: queue.name, lambda queue: (queue.created, queue.uid))
    assert sorted(queues, key=plugins.queue_key) == expected


@given(in_tiers(KEYS), st.lists(TIMES, min_size=6, max_size=6), st.none() | st.permutations([0, 2, 3, 10, 11, 100]))
def test_tasks_are_ordered_like_in_volcano(
    tiers: list[list[dict[str, int]]], times: list[str], indices: list[int] | None
) -> None:
    tasks = [
        task(name, created, index)
        for name, created, index in zip(NAMES, times, indices or cast("list[int | None]", [None] * 6), strict=True)
    ]
    plugins = answering("task_order", [[lambda task, keys=keys: keys[task.name] for keys in tier] for tier in tiers])

    expected = volcanos_order(
        tasks, tiers, lambda task: task.name, lambda task: (task.created, task.uid) if indices is None else task.index
    )
    assert sorted(tasks, key=plugins.task_key) == expected


def test_tasks_without_an_index_come_last() -> None:
    tasks = [task("none", "2025-01-01T00:00:00Z"), task("ten", index=10), task("nine", index=9)]
    assert [each.name for each in sorted(tasks, key=combination().task_key)] == ["nine", "ten", "none"]


@given(in_tiers(KEYS), in_tiers(KEYS))
def test_victim_queues_with_equal_keys_are_in_reverse_queue_order(
    for_victims: list[list[dict[str, int]]], for_all: list[list[dict[str, int]]]
) -> None:
    queues = [queue(name) for name in NAMES]
    preemptor = queue("preemptor")
    plugins = combination(
        *(
            [scripted(victim_queue_order=lambda queue, _, keys=keys: keys[queue.name]) for keys in t]
            for t in for_victims
        ),
        *([scripted(queue_order=lambda queue, keys=keys: keys[queue.name]) for keys in t] for t in for_all),
    )
    backwards = volcanos_order(queues, for_all, lambda queue: queue.name, lambda queue: queue.uid)[::-1]

    expected = volcanos_order(queues, for_victims, lambda queue: queue.name, backwards.index)
    assert sorted(queues, key=lambda queue: plugins.victim_queue_key(queue, preemptor)) == expected


def test_order_of_victim_queues_depends_on_the_preemptor() -> None:
    plugins = answering("victim_queue_order", [[lambda queue, preemptor: queue.name != preemptor.name]])
    assert plugins.victim_queue_key(QUEUE, QUEUE) < plugins.victim_queue_key(queue("a"), QUEUE)


def test_descending_keys_are_equal_where_their_keys_are() -> None:
    assert Descending((1, 2)) == Descending((1, 2)) != Descending((2, 1))
    assert len({Descending((1,)), Descending((1,))}) == 1
    assert Descending((2,)) < Descending((1,))
    assert Descending((1,)) != (1,)


def test_disabled_flag_removes_plugin_from_order() -> None:
    plugin = scripted(job_order=lambda job: job.name == "a")
    tiers = Tiers([[EnabledPlugin(plugin, {"enableJobOrder": False})]])
    assert CombinedPlugins(tiers, SESSION).job_key(job("a", "then")) == ("then", "ns/a")


#: Whom a plugin names; None abstains.
NAMED = st.none() | st.lists(st.sampled_from(NAMES), unique=True)
HOOKS = ("preemptable", "reclaimable")


def victims(tiers: Sequence[Sequence[Sequence[str] | None]], hook: str = "preemptable") -> str:
    """Let plugins name tasks, and return the names of the victims."""
    everyone = {name: task(name) for name in NAMES}

    def naming(names: Sequence[str] | None) -> Callable[..., object]:
        return lambda evictor, tasks: None if names is None else [everyone[name] for name in names]

    plugins = answering(hook, [[naming(names) for names in tier] for tier in tiers])
    return "".join(victim.name for victim in getattr(plugins, hook)(TASK, list(everyone.values())))


def volcanos_victims(tiers: Sequence[Sequence[Sequence[str] | None]]) -> str:
    """Find victims as Volcano does: an empty result is dropped, and the next plugin of the tier starts over."""
    found: list[str] | None = None
    for tier in tiers:
        for named in tier:
            if named is None:
                continue
            if not named:
                found = None
                break
            found = list(named) if found is None else [name for name in found if name in named] or None
        if found:
            break
    return "".join(sorted(found or ()))


def agreed_victims(tiers: Sequence[Sequence[Sequence[str] | None]]) -> str:
    """Find victims by the rule: those whom all plugins of a tier name that do not abstain; the first tier with any."""
    for tier in tiers:
        voters = [set(named) for named in tier if named is not None]
        common = set.intersection(*voters) if voters else set()
        if common:
            return "".join(sorted(common))
    return ""


@given(in_tiers(NAMED), st.sampled_from(HOOKS))
def test_victims_are_those_named_by_all_plugins_of_a_tier(tiers: list[list[list[str] | None]], hook: str) -> None:
    assert victims(tiers, hook) == agreed_victims(tiers)


@given(in_tiers(st.none() | st.lists(st.sampled_from(NAMES), unique=True).map(lambda names: ["a", *names])))
def test_victims_are_those_of_volcano_when_plugins_agree(tiers: list[list[list[str] | None]]) -> None:
    assert victims(tiers) == volcanos_victims([[named and sorted({*named}) for named in tier] for tier in tiers])


@pytest.mark.parametrize(
    ("tiers", "expected", "volcanos"),
    [
        ([["a", "b", "c"]], "", "c"),
        ([["ab", "cd", "ab"], ["ef"]], "ef", "ab"),
        ([["ab", "cd"], ["ef"]], "ef", "ef"),
        ([["ab", "", "c"], ["ef"]], "ef", "ef"),
    ],
)
def test_tier_whose_plugins_disagree_names_no_victims(tiers: list[list[str]], expected: str, volcanos: str) -> None:
    assert victims(tiers) == expected
    assert volcanos_victims(tiers) == volcanos


def test_victims_are_always_candidates() -> None:
    plugins = answering("preemptable", [[[task("a"), task("stranger")]]])
    assert [victim.name for victim in plugins.preemptable(TASK, [task("b"), task("a")])] == ["a"]


def test_no_victims_without_plugins() -> None:
    assert victims([]) == ""


def test_plugins_after_a_disagreement_are_not_called() -> None:
    def never(evictor: TaskInfo, tasks: Sequence[TaskInfo]) -> Sequence[TaskInfo]:
        raise AssertionError("asked in vain")

    assert answering("preemptable", [[[], never]]).preemptable(TASK, [TASK]) == []


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ([], ""),
        ([["ca", "ab"], ["def"]], "abc"),
        ([["", ""], ["b"], ["c"]], "b"),
        ([[""]], ""),
    ],
)
def test_victim_tasks_are_all_named_by_the_first_tier(tiers: list[list[str]], expected: str) -> None:
    everyone = {name: task(name) for name in NAMES}
    named = [[[everyone[name] for name in names] for names in tier] for tier in tiers]
    plugins = answering("victim_tasks", named)
    assert "".join(victim.name for victim in plugins.victim_tasks(list(everyone.values()))) == expected


VOTES = st.sampled_from([*Vote, ...])
CONSENTS = st.sampled_from([True, False, ...])


def volcanos_count(tiers: Sequence[Sequence[object]]) -> bool:
    for tier in tiers:
        votes = [vote for vote in tier if vote is not ...]
        if Vote.REJECT in votes:
            return False
        if Vote.PERMIT in votes:
            return True
    return True


@given(in_tiers(VOTES))
def test_votes_are_counted_like_in_volcano(tiers: list[list[object]]) -> None:
    assert answering("job_pipelined", tiers).job_pipelined(JOB) == volcanos_count(tiers)
    assert (not answering("job_enqueueable", tiers).enqueue_rejector(JOB)) == volcanos_count(tiers)


@given(in_tiers(CONSENTS))
def test_job_is_ready_only_if_all_plugins_agree(tiers: list[list[object]]) -> None:
    expected = all(answer is not False for tier in tiers for answer in tier)
    assert answering("job_ready", tiers).job_ready(JOB) is expected
    assert answering("allocatable", tiers).allocatable(QUEUE, TASK) is expected
    assert answering("preemptive", tiers).preemptive(QUEUE, TASK) is expected


@given(in_tiers(CONSENTS))
def test_queue_is_overused_if_one_plugin_says_so(tiers: list[list[object]]) -> None:
    assert bool(answering("overused", tiers).overused_by(QUEUE)) is any(
        answer is True for tier in tiers for answer in tier
    )


@given(in_tiers(CONSENTS))
def test_first_tier_with_job_starving_decides(tiers: list[list[object]]) -> None:
    knowing = [[answer for answer in tier if answer is not ...] for tier in tiers]
    deciding: list[object] = next((tier for tier in knowing if tier), [False])
    assert answering("job_starving", tiers).job_starving(JOB) is all(deciding)


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        ([], None),
        ([[None, Status(Code.SUCCESS)]], None),
        (
            [[None], [unschedulable("too small"), unresolvable("gone")]],
            Status(Code.UNSCHEDULABLE, ("too small",), "probe"),
        ),
    ],
)
def test_first_rejection_is_returned(tiers: list[list[Status | None]], expected: Status | None) -> None:
    assert answering("job_valid", tiers).job_valid(JOB) == expected
    assert answering("pre_predicate", tiers).pre_predicate(TASK) == expected


def bookkeeper(name: str, book: list[str], refusal: Status | None = None) -> BatchPlugin:
    def allocated(task: TaskInfo) -> Status | None:
        book.append(f"{name}+")
        return refusal

    return scripted(name, allocated=allocated, deallocated=lambda task: book.append(f"{name}-"))


def test_all_plugins_are_notified_of_allocations() -> None:
    book: list[str] = []
    plugins = combination([bookkeeper("a", book)], [bookkeeper("b", book)])
    assert plugins.allocated(TASK) is None
    plugins.deallocated(TASK)
    assert book == ["a+", "b+", "a-", "b-"]


def test_rejected_allocation_is_undone_in_earlier_plugins() -> None:
    book: list[str] = []
    only_losses = scripted("losses", deallocated=lambda task: book.append("losses-"))
    plugins = combination(
        [only_losses, bookkeeper("a", book), bookkeeper("b", book, Status(Code.SUCCESS))],
        [bookkeeper("c", book, unschedulable("full")), bookkeeper("d", book)],
    )
    assert plugins.allocated(TASK) == Status(Code.UNSCHEDULABLE, ("full",), "c")
    assert book == ["a+", "b+", "c+", "a-", "b-"]


def test_plugins_are_notified_in_order() -> None:
    book: list[str] = []
    hooks = ("on_session_open", "job_enqueued", "reserved_nodes", "on_session_close")

    def noting(name: str) -> BatchPlugin:
        return scripted(name, **{hook: lambda *_, hook=hook: book.append(f"{name}.{hook}") for hook in hooks})

    plugins = combination([noting("a")], [], [noting("b")])
    list(plugins.open())
    plugins.job_enqueued(JOB)
    plugins.reserved_nodes()
    plugins.close()
    assert book == [f"{name}.{hook}" for hook in hooks for name in "ab"]


def test_session_opening_yields_where_plugins_yield() -> None:
    book: list[str] = []

    def opening(*_: object) -> Iterator[None]:
        for step in ("a.1", "a.2"):
            book.append(step)
            yield

    plugins = combination(
        [scripted("a", on_session_open=opening)], [scripted("b", on_session_open=lambda *_: book.append("b"))]
    )
    steps = plugins.open()
    next(steps)
    assert book == ["a.1"]
    list(steps)
    assert book == ["a.1", "a.2", "b"]


def test_exception_of_opening_generator_names_its_plugin() -> None:
    def opening(*_: object) -> Iterator[None]:
        yield
        raise LookupError("where is it")

    steps = combination([scripted("a", on_session_open=opening)]).open()
    next(steps)
    with pytest.raises(PluginError, match="LookupError: where is it") as caught:
        next(steps)
    assert (caught.value.plugin, caught.value.hook) == ("a", "on_session_open")


def test_first_target_job_is_used() -> None:
    first, second = job("first"), job("second")
    assert answering("target_job", [[None], [first, second]]).target_job([second, first]) is first
    assert answering("target_job", [[None]]).target_job([second, first]) is None


@pytest.mark.parametrize(("answers", "expected"), [([], None), ([None], None), ([30.0, None, 20.0], 20.0)])
def test_earliest_wake_time_is_used(answers: list[float | None], expected: float | None) -> None:
    assert answering("wakes_at", [[answer] for answer in answers]).wakes_at() == expected


def test_exception_of_a_plugin_names_it() -> None:
    def fail(job: JobInfo) -> bool:
        raise ZeroDivisionError("by zero")

    plugin = scripted("greedy", job_ready=fail)
    plugins = CombinedPlugins(Tiers([[EnabledPlugin(plugin, distribution="acme 1.0")]]), SESSION)
    message = "plugin 'greedy' (from acme 1.0), hook job_ready: ZeroDivisionError: by zero"
    with pytest.raises(PluginError, match="greedy") as caught:
        plugins.job_ready(JOB)
    assert str(caught.value) == message
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_exception_of_a_plugin_called_by_another_names_the_inner_one() -> None:
    def fail(queue: QueueInfo) -> bool:
        raise ZeroDivisionError

    asked = combination([scripted("asked", overused=fail)])
    plugins = combination([scripted("asking", job_ready=lambda job: asked.overused_by(QUEUE))])
    with pytest.raises(PluginError) as caught:
        plugins.job_ready(JOB)
    assert (caught.value.plugin, caught.value.hook) == ("asked", "overused")
