"""The contract of session plugins: every hook, with how the answers of several plugins are combined.

Plugins are grouped in tiers, as the configuration lists them. Arguments are positional. `session` is the open Session;
its jobs, tasks, queues and nodes include the session's own changes so far. Hooks are plain functions that neither wait
nor do I/O. If a hook raises, the plugin is at fault: the session ends there, names it in the log, and the next one
begins a period later; everything that was not committed is rolled back.

An order is given by keys, lowest first, not by comparing: the keys of all plugins, in the order of tiers and plugins,
make one tuple, so the first plugin with different keys decides. Keys of one hook must be comparable with each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import pluggy
from numpy.typing import NDArray

from kframework import NodeInfo, Status
from kframework_batch.hypernodes import Domain
from kframework_batch.job import GangInfo, JobInfo, SubJobInfo, TaskInfo
from kframework_batch.plugin import Vote
from kframework_batch.queue import QueueAccount, QueueInfo
from kframework_batch.session_view import SessionView

hookspec: pluggy.HookspecMarker = pluggy.HookspecMarker("kframework_batch")

#: What orders things: compared with `<` and `==` to keys of the same hook only.
Key: TypeAlias = object
#: Rows of the node table (int64).
Rows: TypeAlias = NDArray[np.int64]


class Lifecycle(Protocol):
    """A session begins and ends."""

    @hookspec
    def on_session_open(self, session: SessionView) -> Iterator[None] | None:
        """Work out what the session needs; called for all plugins in order, before the first action.

        It may be a generator, which is run to its end: where it yields the scheduler may do other work, so that
        thousands of jobs (`session_view.in_batches`) do not block it. Nothing changes meanwhile.
        """

    @hookspec
    def on_session_close(self, session: SessionView) -> None:
        """Look at the result; called after the last action, before the session's tasks are reset."""

    @hookspec
    def allocated(self, session: SessionView, task: TaskInfo) -> Status | None:
        """Account for room that a task got, or is promised; a Status rejects it, and the operation is undone."""

    @hookspec
    def deallocated(self, session: SessionView, task: TaskInfo) -> None:
        """Account for room, or the promise of it, that a task lost: it is evicted, or an operation is undone."""

    @hookspec
    def wakes_at(self, session: SessionView) -> float | None:
        """Return when a session is wanted although nothing has changed, in seconds since 1970; the earliest counts."""


class Orders(Protocol):
    """The hooks that order queues, jobs and tasks."""

    @hookspec
    def job_order(self, session: SessionView, job: JobInfo) -> Key:
        """Return the key of a job among those of its queue; ties: creation, then uid."""

    @hookspec
    def subjob_order(self, session: SessionView, subjob: SubJobInfo) -> Key:
        """Return the key of a subgroup of a job, whose subgroups that it needs go first anyway; ties: index, name."""

    @hookspec
    def task_order(self, session: SessionView, task: TaskInfo) -> Key:
        """Return the key of a task among those of its job; ties: index, creation, uid."""

    @hookspec
    def queue_order(self, session: SessionView, queue: QueueInfo) -> Key:
        """Return the key of a queue; ties: creation, then uid."""

    @hookspec
    def victim_queue_order(self, session: SessionView, queue: QueueInfo, preemptor: QueueInfo) -> Key:
        """Return the key of a queue among those that give way to another; without any: the inverse of queue_order."""


class Predicate(Protocol):
    """The hooks that filter nodes, besides the resources of a task; every plugin must agree."""

    @hookspec
    def pre_predicate(self, session: SessionView, task: TaskInfo) -> Status | None:
        """Filter a task for all nodes at once."""

    @hookspec
    def predicate(self, session: SessionView, task: TaskInfo, node: NodeInfo) -> Status | None:
        """Filter one node for a task."""

    @hookspec
    def predicate_nodes(self, session: SessionView, task: TaskInfo, rows: Rows) -> Rows:
        """Filter many rows (int64, aligned with rows): 0 = it may go there, else a code for predicate_status."""

    @hookspec
    def predicate_status(self, session: SessionView, task: TaskInfo, code: int) -> Status:
        """Put a code of predicate_nodes into words."""


class NodeOrdering(Protocol):
    """The hooks that score nodes; the scores of all plugins are added up."""

    @hookspec
    def node_order(self, session: SessionView, task: TaskInfo, node: NodeInfo) -> float:
        """Return what a node is worth to a task."""

    @hookspec
    def node_order_nodes(self, session: SessionView, task: TaskInfo, rows: Rows) -> NDArray[np.float64]:
        """Return the same for many rows, which are all the candidates (float64, aligned with rows)."""

    @hookspec
    def best_node(self, session: SessionView, task: TaskInfo, rows: Rows, scores: NDArray[np.float64]) -> int | None:
        """Choose a row; the first plugin that does decides, without any the best score does."""


class HyperNodeOrdering(Protocol):
    """The hook that scores hypernodes of a tier for a job or a subgroup; the scores of all plugins are added up."""

    @hookspec
    def hypernode_order(self, session: SessionView, gang: GangInfo, hypernode: Domain) -> float:
        """Return what a hypernode is worth to a gang, which is tried in the best of the lowest tier first."""


class Victims(Protocol):
    """The hooks that choose victims.

    None abstains. In the first tier with an answer, the tasks that all its plugins name are the victims; where a plugin
    names none, or they agree on none, the next tier is called.
    """

    @hookspec
    def preemptable(
        self, session: SessionView, preemptor: TaskInfo, tasks: Sequence[TaskInfo]
    ) -> Sequence[TaskInfo] | None:
        """Return which of these tasks a task may push out within its queue."""

    @hookspec
    def reclaimable(
        self, session: SessionView, reclaimer: TaskInfo, tasks: Sequence[TaskInfo]
    ) -> Sequence[TaskInfo] | None:
        """Return which of these tasks of other queues a task may take room back from."""

    @hookspec
    def victim_tasks(self, session: SessionView, tasks: Sequence[TaskInfo]) -> Sequence[TaskInfo]:
        """Return which of these running tasks should be evicted without a preemptor (shuffle).

        All that the plugins of a tier name count; the first tier that names any task decides.
        """


class Fairness(Protocol):
    """The hooks that limit queues."""

    @hookspec
    def overused(self, session: SessionView, queue: QueueInfo) -> bool:
        """Return whether a queue already holds its share; one plugin is enough."""

    @hookspec
    def allocatable(self, session: SessionView, queue: QueueInfo, task: TaskInfo) -> bool:
        """Return whether a queue may have room for this task too; all plugins must agree."""

    @hookspec
    def preemptive(self, session: SessionView, queue: QueueInfo, task: TaskInfo) -> bool:
        """Return whether a queue may take room back for this task; all plugins must agree."""

    @hookspec
    def queue_account(self, session: SessionView, queue: QueueInfo) -> QueueAccount | None:
        """Return what a queue has and deserves, for the accounts of sessions; the first plugin with an answer decides.

        It is called once for each queue, after `on_session_open`.
        """

    @hookspec
    def job_enqueueable(self, session: SessionView, job: JobInfo) -> Vote:
        """Vote on whether pods of a job may be made."""

    @hookspec
    def job_enqueued(self, session: SessionView, job: JobInfo) -> None:
        """Account for a job whose pods may now be made."""


class GangHooks(Protocol):
    """The hooks that decide when a job has enough."""

    @hookspec
    def job_valid(self, session: SessionView, job: JobInfo) -> Status | None:
        """Reject a job that cannot be scheduled at all; the first plugin that does decides."""

    @hookspec
    def job_ready(self, session: SessionView, job: JobInfo) -> bool:
        """Return whether enough tasks of a job have room; all plugins must agree, then the job is committed."""

    @hookspec
    def job_pipelined(self, session: SessionView, job: JobInfo) -> Vote:
        """Vote on whether enough tasks of a job have room or are promised it."""

    @hookspec
    def subjob_ready(self, session: SessionView, subjob: SubJobInfo) -> bool:
        """Return whether enough tasks of a subgroup have room; all plugins must agree."""

    @hookspec
    def subjob_pipelined(self, session: SessionView, subjob: SubJobInfo) -> Vote:
        """Vote on whether enough tasks of a subgroup have room or are promised it."""

    @hookspec
    def job_starving(self, session: SessionView, job: JobInfo) -> bool:
        """Return whether a job may push others out.

        Within a tier all must agree; the first tier with a plugin that has this hook decides, without any: no.
        """

    @hookspec
    def target_job(self, session: SessionView, jobs: Sequence[JobInfo]) -> JobInfo | None:
        """Choose the job for which nodes are kept free; the first plugin that does decides."""

    @hookspec
    def reserved_nodes(self, session: SessionView) -> None:
        """Keep nodes free for the target job."""


SPECIFICATIONS: tuple[type, ...] = (
    *(Lifecycle, Orders, Predicate, NodeOrdering, HyperNodeOrdering),
    *(Victims, Fairness, GangHooks),
)
