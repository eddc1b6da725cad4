"""Who is asked at which hook, and which plugins break the contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, ClassVar

import pytest
from kframework_batch.hookspecs import SPECIFICATIONS, Rows
from kframework_batch.job import JobInfo, TaskInfo
from kframework_batch.plugin import BatchArguments, BatchPlugin, hookimpl
from kframework_batch.session import Session
from kframework_batch.tiers import FLAGS, HIERARCHY, UNSUPPORTED_FLAGS, EnabledPlugin, HookCall, Tiers

from kframework.errors import PluginError
from kframework.state.nodes import NodeInfo
from kframework.values.status import Status, unschedulable

HOOKS = {
    name
    for protocol in SPECIFICATIONS
    for name, member in vars(protocol).items()
    if hasattr(member, "kframework_batch_spec")
}


class Orders(BatchPlugin):
    name: ClassVar[str] = "orders"

    @hookimpl
    def job_order(self, session: Session, job: JobInfo) -> int:
        return 1

    @hookimpl
    def task_order(self, session: Session, task: TaskInfo) -> int:
        return 2


class Enqueuer(BatchPlugin):
    name: ClassVar[str] = "enqueuer"

    @hookimpl
    def job_order(self, session: Session, job: JobInfo) -> int:
        return 3

    @hookimpl
    def job_enqueued(self, session: Session, job: JobInfo) -> None: ...

    @hookimpl
    def job_valid(self, session: Session, job: JobInfo) -> Status | None: ...

    def job_ready(self, session: Session, job: JobInfo) -> bool:
        """Not marked, so no hook."""
        return False


ORDERS, ENQUEUER = Orders(BatchArguments()), Enqueuer(BatchArguments())


def names(calls: tuple[HookCall[object], ...]) -> list[str]:
    return [call.plugin.name for call in calls]


def test_calls_are_grouped_by_tier_in_order() -> None:
    tiers = Tiers([[EnabledPlugin(ENQUEUER), EnabledPlugin(ORDERS)], [], [EnabledPlugin(ORDERS)]])
    assert tiers.plugins == (ENQUEUER, ORDERS, ORDERS)
    assert [names(tier) for tier in tiers.calls("job_order")] == [["enqueuer", "orders"], ["orders"]]
    assert names(tiers.flat("job_order")) == ["enqueuer", "orders", "orders"]
    assert [call(None, None) for call in tiers.flat("job_order")] == [3, 1, 1]


def test_tiers_without_calls_are_omitted() -> None:
    tiers = Tiers([[EnabledPlugin(ENQUEUER)], [EnabledPlugin(ORDERS)]])
    assert [names(tier) for tier in tiers.calls("task_order")] == [["orders"]]
    assert tiers.calls("job_ready") == ()


def test_every_hook_has_calls() -> None:
    tiers = Tiers([])
    assert all(tiers.flat(hook) == () for hook in HOOKS)
    with pytest.raises(KeyError):
        tiers.calls("job_odrer")


@pytest.mark.parametrize(
    ("flag", "left"),
    [
        ("enableJobOrder", {"task_order", "job_enqueued", "job_valid"}),
        ("enableTaskOrder", {"job_order", "job_enqueued", "job_valid"}),
        ("enableJobEnqueued", {"job_order", "task_order", "job_valid"}),
        ("enableHierarchy", {"job_order", "task_order", "job_enqueued", "job_valid"}),
    ],
)
def test_flag_turns_its_hooks_off(flag: str, left: set[str]) -> None:
    tiers = Tiers([[EnabledPlugin(ORDERS, {flag: False}), EnabledPlugin(ENQUEUER, {flag: False})]])
    assert {hook for hook in HOOKS if tiers.flat(hook)} == left


def test_flags_are_those_of_volcano() -> None:
    assert {*FLAGS, *UNSUPPORTED_FLAGS, HIERARCHY} == set(
        """enableJobOrder enableHierarchy enableJobReady enableJobPipelined enableTaskOrder enablePreemptable
        enableReclaimable enablePreemptive enableQueueOrder enabledClusterOrder enablePredicate enableBestNode
        enableNodeOrder enableTargetJob enableReservedNodes enableJobEnqueued enabledVictim enableJobStarving
        enabledOverused enabledAllocatable enabledHyperNodeOrder enabledSubJobReady enabledSubJobPipelined
        enabledSubJobOrder enabledHyperNodeGradient""".split()
    )


def test_hooks_without_flag_are_those_of_volcano() -> None:
    flagged = {hook for hooks in FLAGS.values() for hook in hooks}
    lifecycle = {"on_session_open", "on_session_close", "allocated", "deallocated", "wakes_at"}
    assert flagged <= HOOKS
    assert HOOKS - flagged == lifecycle | {"job_valid", "queue_account", "victim_queue_order"}


def broken(name: str, hook: str, function: Callable[..., object], **options: Any) -> type[BatchPlugin]:
    """Make a class of plugins with one method, which is marked as a hook."""
    method = FunctionType(function.__code__, globals(), hook)  # a copy, as the mark stands on the function
    return type(name, (BatchPlugin,), {"name": name, hook: hookimpl(**options)(method)})


def ready(self: object, session: Session, job: JobInfo) -> bool:
    return True


def wrapper(self: object, session: Session, job: JobInfo) -> Iterator[None]:
    yield


async def waiting(self: object, session: Session, job: JobInfo) -> bool:
    return True


ORDERED = "hook job_ready: tryfirst and trylast are not supported: the configuration defines the order"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (broken("misspelt", "job_odrer", ready), "unknown hook 'job_odrer'"),
        (
            broken("unknown-argument", "job_order", lambda self, session, jobs: 0),
            "Argument(s) {'jobs'} are declared in the hookimpl but can not be found in the hookspec",
        ),
        (
            broken("too-few-arguments", "victim_queue_order", lambda self, session, queue: 0),
            "takes (session, queue) where the contract says (session, queue, preemptor)",
        ),
        (broken("new", "job_ready", wrapper, wrapper=True), "hook job_ready: hooks of sessions cannot be wrapped"),
        (broken("old", "job_ready", wrapper, hookwrapper=True), "hook job_ready: hooks of sessions cannot be wrapped"),
        (broken("first", "job_ready", ready, tryfirst=True), ORDERED),
        (broken("last", "job_ready", ready, trylast=True), ORDERED),
        (
            broken("renamed", "ready", ready, specname="job_ready"),
            "hook ready: a method has the name of its hook: specname and optionalhook are refused",
        ),
        (
            broken("optional", "job_odrer", ready, optionalhook=True),
            "hook job_odrer: a method has the name of its hook: specname and optionalhook are refused",
        ),
        (
            broken("waiting", "job_ready", waiting),
            "hook job_ready: must be a plain function: the scheduling cycle does not await it",
        ),
        (
            broken("wordless", "predicate_nodes", lambda self, session, task, rows: rows),
            "hook predicate_nodes: needs predicate_status beside it, to put its codes into words",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:.*hookwrapper.*:DeprecationWarning")  # that it is old is why it is here
def test_plugin_that_breaks_the_contract_is_named(kind: type[BatchPlugin], message: str) -> None:
    for _ in range(2):  # a class that was refused is not taken for sound the next time
        with pytest.raises(PluginError) as caught:
            Tiers([[EnabledPlugin(ORDERS)], [EnabledPlugin(kind(BatchArguments()), distribution="acme 1.0")]])
        assert str(caught.value).startswith(f"plugin '{kind.name}' (from acme 1.0)")
        assert message in str(caught.value)


class Columnar(BatchPlugin):
    name: ClassVar[str] = "columnar"

    @hookimpl
    def predicate_nodes(self, session: Session, task: TaskInfo, rows: Rows) -> Rows:
        return rows

    @hookimpl
    def predicate_status(self, session: Session, task: TaskInfo, code: int) -> Status:
        return unschedulable(str(code))


class Derived(Columnar):
    name: ClassVar[str] = "derived"

    @hookimpl
    def predicate(self, session: Session, task: TaskInfo, node: NodeInfo) -> Status | None:
        return None


def test_hooks_are_inherited() -> None:
    tiers = Tiers([[EnabledPlugin(Derived(BatchArguments()))]])
    for hook in ("predicate", "predicate_nodes", "predicate_status"):
        assert names(tiers.flat(hook)) == ["derived"]
