"""The replay of an account on the slow model: AssertionError for whatever is not true of a session."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from kframework_batch.account import ProtectedTasks, QueueState, SessionAccount, TaskVerdict, Turn, TurnOutcome

from tests.support.batch_accounts.jobs import READY, Job, Task, nonzero, total
from tests.support.batch_accounts.protection import PROTECTS, SILENT, by_priority
from tests.support.batch_accounts.session_model import SessionModel

BROKEN = "a member of the gang"
NO_ROOM = "it would fit no node even without the pods that may be evicted"
FIT_ERROR = re.compile(r"0/(\d+) nodes are available:(?: (.*)\.)?")
#: The stock plugins that have work to do when a session opens.
OPENING = ("drf", "proportion", "capacity", "overcommit")


class TurnQueue:
    """Things in the order of their keys as these were when they were put in."""

    def __init__(self, key: Callable[[Any], Any], things: Sequence[Any] = ()) -> None:
        self.key = key
        self.waiting: list[tuple[Any, Any]] = []
        for thing in things:
            self.put(thing)

    def put(self, thing: Any) -> None:
        self.waiting.append((self.key(thing), thing))

    def take(self) -> Any:
        first = min(self.waiting, key=lambda pair: pair[0])
        self.waiting.remove(first)
        return first[1]

    def __len__(self) -> int:
        return len(self.waiting)


class Replay:
    """Goes through an account on the model; AssertionError for whatever is not true of it."""

    def __init__(self, stands: SessionModel, account: SessionAccount) -> None:
        self.stands, self.account = stands, account
        self.turns: list[Turn] = list(account.turns)
        self.bound: list[tuple[str, str]] = []
        self.evicted: list[tuple[str, str]] = [pair for pair in account.evicted if pair[1].startswith(BROKEN)]
        #: Why tasks found no node, as their conditions are to say.
        self.errors: dict[str, str] = {}
        self.placed: set[str] = set()

    def run(self) -> None:
        account, stands = self.account, self.stands
        assert account.at == stands.now
        assert (account.nodes, account.capacity) == (len(stands.nodes), nonzero(stands.total))
        stands.open([key for key, _ in self.evicted])
        self.phases = {job.uid: job.phase for job in stands.jobs.values()}
        self.queues()
        actions = stands.world.actions.split(", ")
        for self.action in actions:
            getattr(self, self.action)()
        assert not self.turns, f"there was no such turn: {self.turns[0]}"
        assert list(account.bound) == self.bound
        assert list(account.evicted) == self.evicted
        assert [part.name for part in account.parts if part.kind == "action"] == actions
        opening = [part.name for part in account.parts if part.kind == "open"]
        assert opening == [name for name in stands.plugins if name in OPENING]
        assert 0 <= account.sample_value < 1
        for state in account.queues:
            held = nonzero(
                total(job.sum("Binding", "Bound", "Running") for job in stands.able if job.queue == state.queue)
            )
            assert nonzero(state.held) == held
            assert state.dominant == (stands.dominant(held) if held else 0)

    def queues(self) -> None:
        """They stand as the model has them, in the order of what they have."""
        stands = self.stands
        asked = {job.queue for job in stands.able}
        states = {state.queue: state for state in self.account.queues}
        assert states.keys() == stands.queues.keys()
        for name, state in states.items():
            assert state.weight == max(stands.queues[name].spec.weight, 1)
            self.queue(name, state)
        order = [*sorted(asked, key=stands.queue_key), *sorted(stands.queues.keys() - asked)]
        assert list(states) == order

    def queue(self, name: str, state: QueueState) -> None:
        stands = self.stands
        assert state.plugin == ("" if stands.broken else stands.fair)
        stands.due[name] = state.deserved
        if not state.plugin:
            assert not (state.allocated or state.requested or state.deserved or state.share)
            return
        assert nonzero(state.allocated) == nonzero(stands.allocated(name))
        assert nonzero(state.requested) == nonzero(stands.requested(name))
        for resource in {*state.deserved, *stands.total, *stands.guarantee(name)}:
            due, off = stands.deserved(name, resource)
            assert abs(state.deserved.get(resource, 0) - due) <= off, f"{name} is due {due} {resource}"
        assert state.share == stands.share(name)

    def next(self, job: Job, *outcomes: TurnOutcome, plugin: str = "", message: str = "") -> Turn:
        """Take the next turn, which is this job's."""
        assert self.turns, f"a turn of {job.uid} is missing"
        turn = self.turns.pop(0)
        assert (turn.action, turn.job, turn.queue) == (self.action, job.uid, job.queue)
        assert turn.outcome in outcomes, f"{turn} is not {outcomes}"
        assert (turn.plugin, turn.minimum) == (plugin, job.minimum)
        pushes_out = turn.action in ("preempt", "reclaim") and turn.outcome is TurnOutcome.DISCARDED
        assert message in turn.message if message else pushes_out or not turn.message
        for verdict in turn.verdicts:
            task = self.stands.tasks[verdict.uid]
            assert task.key == verdict.pod
            assert not verdict.node or verdict.node in self.stands.nodes
        return turn

    def passed(self, job: Job, outcome: TurnOutcome, plugin: str = "", message: str = "") -> None:
        """Take a turn without a result."""
        turn = self.next(job, outcome, plugin=plugin, message=message)
        assert turn.had == job.had
        assert not (turn.verdicts or turn.victims or turn.protected)

    def candidates(self) -> list[Job]:
        """List the jobs that may have room; those that are invalid have a turn that says so."""
        found = []
        for job in self.stands.able:
            if job.phase in ("", "Pending"):
                continue
            valid = [task for task in job.tasks if task.status in (*READY, "Pipelined", "Pending")]
            roles = Counter(task.role for task in valid)
            message = ""
            if job.minds_roles and any(roles[role] < least for role, least in job.roles.items()):
                message = "Not enough valid pods of each task for gang-scheduling"
            elif len(valid) < job.minimum:
                message = f"Not enough valid tasks for gang-scheduling, valid: {len(valid)}, min: {job.minimum}"
            if message:
                self.passed(job, TurnOutcome.INVALID, "gang", message)
                job.message = message
            else:
                found.append(job)
        return found

    def enqueue(self) -> None:
        stands = self.stands
        waiting: dict[str, TurnQueue] = {}
        for job in stands.able:
            if job.phase in ("", "Pending"):
                waiting.setdefault(job.queue, TurnQueue(stands.job_key)).put(job)
        queues = TurnQueue(stands.queue_key, list(waiting))
        while queues:
            queue = queues.take()
            job = waiting[queue].take()
            plugin, message = stands.keeps_out(job) if job.claims is not None else ("", "")
            if plugin:
                job.message = self.turns[0].message if self.turns else ""
                self.passed(job, TurnOutcome.HELD_BACK, plugin, message)
            else:
                stands.enter(job)
                self.passed(job, TurnOutcome.ADMITTED)
            if waiting[queue]:
                queues.put(queue)

    def allocate(self) -> None:
        stands = self.stands
        for job in stands.able if "enqueue" not in stands.world.actions else ():
            job.phase = "Inqueue" if job.phase in ("", "Pending") else job.phase
        jobs: dict[str, TurnQueue] = {}
        left: dict[str, list[Task]] = {}
        for job in self.candidates():
            if any(task.request for task in stands.waiting(job)):
                jobs.setdefault(job.queue, TurnQueue(stands.job_key)).put(job)
        queues = TurnQueue(stands.queue_key, list(jobs))
        failed: dict[str, set[str]] = {}
        while queues:
            queue = queues.take()
            if plugin := stands.overused(queue):
                while jobs[queue]:
                    job = jobs[queue].take()
                    message = f"queue {queue} already holds its share"
                    job.message = message
                    self.passed(job, TurnOutcome.OVERUSED, plugin, message)
                continue
            job = jobs[queue].take()
            if job.uid not in left:
                left[job.uid] = [task for task in stands.waiting(job) if task.request]
            if self.allocate_turn(job, left[job.uid], failed.setdefault(job.uid, set())):
                jobs[queue].put(job)
            if jobs[queue]:
                queues.put(queue)

    def allocate_turn(self, job: Job, left: list[Task], failed: set[str]) -> bool:
        turn = self.next(job, TurnOutcome.COMMITTED, TurnOutcome.KEPT, TurnOutcome.DISCARDED)
        broken, verdicts = job.is_broken, {verdict.uid: verdict for verdict in turn.verdicts}
        tried: list[Task] = []
        while left:
            task = left.pop(0)
            tried.append(task)
            assert task.uid in verdicts, f"nothing is said of {task.key}"
            verdict = verdicts[task.uid]
            if verdict.node:
                self.had_room(task, verdict)
                if job.is_complete():
                    break
            else:
                self.had_none(task, verdict, failed)
                if failed and not may_be_ready(job, failed):
                    break
        expected = TurnOutcome.COMMITTED if job.is_complete() else TurnOutcome.DISCARDED
        if expected is TurnOutcome.DISCARDED and (broken or job.is_complete("Pipelined")):
            expected = TurnOutcome.KEPT
        self.over(job, turn, tried, expected)
        return expected is TurnOutcome.COMMITTED and bool(left)

    def over(self, job: Job, turn: Turn, tried: list[Task], expected: TurnOutcome) -> None:
        """The turn said all of those tried, and ended as expected; what is not kept is taken back."""
        assert turn.outcome is expected
        assert turn.had == job.had
        assert not (turn.victims or turn.protected)
        order = {"Allocated": 0, "Pipelined": 1, "Pending": 2}
        assert [verdict.uid for verdict in turn.verdicts] == [
            task.uid for task in sorted(tried, key=lambda task: order[task.status])
        ]
        for task in tried:
            if task.status != "Pending":
                self.placed.add(task.uid)
            if expected is TurnOutcome.DISCARDED:
                self.stands.take_back(task)
            elif expected is TurnOutcome.COMMITTED and task.status == "Allocated":
                task.status = "Binding"
                self.bound.append((task.key, task.node))

    def had_room(self, task: Task, verdict: TaskVerdict) -> None:
        """It was the node's own room, or that of others only where none is free now."""
        stands = self.stands
        assert not task.request or not stands.refuses_room(task.job.queue, task)
        now, later = stands.feasible(task)
        assert not (verdict.promised and now)
        nodes = later if verdict.promised else now
        assert verdict.node in nodes
        assert verdict.feasible == len(nodes)
        assert 1 <= verdict.ties <= verdict.feasible
        assert not (verdict.message or verdict.plugin)
        stands.place(task, verdict.node, "Pipelined" if verdict.promised else "Allocated")

    def had_none(self, task: Task, verdict: TaskVerdict, failed: set[str]) -> None:
        """There was no room: by the queue, by the role, or on any node, as often as is said."""
        stands, job = self.stands, task.job
        self.errors[task.uid] = verdict.message
        self.placed.discard(task.uid)
        assert not (verdict.promised or verdict.feasible or verdict.ties)
        if refuser := stands.refuses_room(job.queue, task) if task.request else "":
            is_open = stands.queues[job.queue].status.state in ("", "Open")
            why = f"queue {job.queue} {'has no share left for it' if is_open else 'is not open'}"
            assert (verdict.plugin, verdict.message) == (refuser, why)
            return
        assert not verdict.plugin
        if task.role and task.role in failed:
            assert verdict.message == f"another task of role {task.role} found no node"
            return
        failed.add(task.role)
        assert not stands.feasible(task)[1]
        said = FIT_ERROR.fullmatch(verdict.message)
        assert said is not None
        assert int(said[1]) == len(stands.nodes)
        counts = Counter({reason: int(count) for count, reason in re.findall(r"(\d+) ([^,]+)", said[2] or "")})
        short, enough = stands.short_of(task)
        for resource, count in short.items():
            assert counts.pop("Too many pods" if resource == "pods" else f"Insufficient {resource}", 0) == count
        assert not any(reason.startswith(("Insufficient", "Too many")) for reason in counts)
        assert counts.total() == enough

    def backfill(self) -> None:
        stands = self.stands
        jobs: dict[str, list[Job]] = {}
        for job in self.candidates():
            if any(not task.request for task in stands.waiting(job)):
                jobs.setdefault(job.queue, []).append(job)
        for queue in sorted(jobs, key=stands.queue_key):
            for job in sorted(jobs[queue], key=stands.job_key):
                turn = self.next(job, TurnOutcome.COMMITTED, TurnOutcome.DISCARDED)
                verdicts, tried = {verdict.uid: verdict for verdict in turn.verdicts}, []
                for task in stands.waiting(job):
                    if not task.request:
                        tried.append(task)
                        assert task.uid in verdicts, f"nothing is said of {task.key}"
                        verdict = verdicts[task.uid]
                        if verdict.node:
                            self.had_room(task, verdict)
                        else:
                            self.had_none(task, verdict, set())
                self.over(job, turn, tried, TurnOutcome.COMMITTED if job.is_complete() else TurnOutcome.DISCARDED)

    def starving(self) -> dict[str, list[Job]]:
        found: dict[str, list[Job]] = {}
        for job in self.candidates():
            if job.starves:
                found.setdefault(job.queue, []).append(job)
        return found

    def preempt(self) -> None:
        stands, jobs = self.stands, self.starving()
        queues = TurnQueue(stands.queue_key, list(jobs))
        while queues:
            queue = queues.take()
            for job in sorted(jobs[queue], key=stands.job_key):
                self.push_out(job, lambda task, other: other.job is not task.job and other.job.queue == task.job.queue)
            for job in jobs[queue]:
                while self.turns and (self.turns[0].action, self.turns[0].job) == ("preempt", job.uid):
                    assert not (self.turns[0].message and any(not one.node for one in self.turns[0].verdicts))
                    self.push_out(job, lambda task, other: other.job is task.job)

    def reclaim(self) -> None:
        stands, found = self.stands, self.starving()
        jobs = {queue: TurnQueue(stands.job_key, hungry) for queue, hungry in found.items()}
        queues = TurnQueue(stands.queue_key, list(jobs))

        def may_go(task: Task, other: Task) -> bool:
            if other.job not in stands.able or other.job.queue == task.job.queue:
                return False
            return stands.queues[other.job.queue].spec.reclaimable is not False

        while queues:
            queue = queues.take()
            if plugin := stands.overused(queue):
                while jobs[queue]:
                    self.passed(jobs[queue].take(), TurnOutcome.OVERUSED, plugin)
                continue
            self.push_out(jobs[queue].take(), may_go)
            if jobs[queue]:
                queues.put(queue)

    def push_out(self, job: Job, may_go: Callable[[Task, Task], bool]) -> None:
        """The promises needed a victim, and none of them is protected; or they were dropped."""
        stands = self.stands
        turn = self.next(job, TurnOutcome.COMMITTED, TurnOutcome.DISCARDED)
        victims = [stands.tasks[victim.uid] for victim in turn.victims]
        promised = [(stands.tasks[v.uid], v) for v in turn.verdicts if v.node]
        rejected = [(stands.tasks[v.uid], v) for v in turn.verdicts if not v.node]
        waiting = stands.waiting(job)
        assert all(task in waiting for task, _ in (*promised, *rejected))
        self.spared(turn, job, may_go, strictly=not promised and not victims)
        for task, said in zip(victims, turn.victims, strict=True):
            assert (task.key, task.job.uid, task.node) == (said.pod, said.job, said.node)
            assert task.may_go
            assert may_go(waiting[0], task)
            task.before = task.status
            stands.evict(task)
        for task, verdict in promised:
            assert verdict.promised
            assert verdict.ties <= verdict.feasible <= len(stands.nodes)
            if not victims:
                now, later = stands.feasible(task)
                assert verdict.node in (now or later)
                assert verdict.feasible == len(now or later)
            stands.place(task, verdict.node, "Pipelined")
        for node in {verdict.node for _, verdict in promised}:
            free = stands.free(node, later=True)
            wanted = [{**task.request, "pods": 1} for task, verdict in promised if verdict.node == node]
            assert all(free.get(name, 0) >= 0 for each in wanted for name in each)
        for task, verdict in rejected:
            assert (verdict.message, verdict.plugin) == (NO_ROOM, "")
            if not victims and not (self.action == "preempt" and stands.refuses_room(job.queue, task)):
                assert self.action == "reclaim" or not stands.feasible(task)[1]
        assert turn.had == job.had
        self.pushed(turn, job, victims, [task for task, _ in promised])

    def pushed(self, turn: Turn, job: Job, victims: list[Task], promised: list[Task]) -> None:
        """Keep or take back what was done for a job."""
        self.placed.update(task.uid for task in promised)
        if turn.outcome is TurnOutcome.COMMITTED:
            assert victims
            assert promised
            assert not turn.message
            self.evicted += [(task.key, self.action) for task in victims]
            return
        if turn.message:
            assert turn.message == "no victim is needed"
            assert not victims
            assert job.is_complete("Pipelined")
        for task in promised:
            self.stands.take_back(task)
        for task in victims:
            task.status, task.evicted = task.before, False

    def spared(self, turn: Turn, job: Job, may_go: Callable[[Task, Task], bool], *, strictly: bool) -> None:
        """Those who were not let go could have been meant, and the plugin says so."""
        for spared in turn.protected:
            assert len(spared.examples) == len(set(spared.examples)) == min(spared.tasks, 5)
            assert spared.plugin in self.stands.plugins
            assert spared.plugin not in SILENT[self.action]
            meant = self.protected(spared, job, may_go, strictly=strictly)
            assert set(spared.examples) <= meant, f"{spared} protects no more than {meant}"
            assert spared.tasks <= len(meant)

    def protected(
        self, spared: ProtectedTasks, job: Job, may_go: Callable[[Task, Task], bool], *, strictly: bool
    ) -> set[str]:
        """Name whom a plugin may have kept from going for one of the tasks of a job."""
        stands, meant = self.stands, set()
        for task in stands.waiting(job):
            near = [o for o in stands.tasks.values() if o.may_go and o.node in stands.nodes and may_go(task, o)]
            for other in near:
                if self.action == "preempt" and spared.plugin != "priority" and by_priority(stands, task, other, ()):
                    continue  # that says so first
                beside = [each for each in near if each.node == other.node and each is not other]
                if not strictly and spared.plugin not in ("priority", "conformance"):
                    meant.add(other.key)
                elif PROTECTS[spared.plugin](stands, task, other, beside):
                    meant.add(other.key)
        return meant

    def shuffle(self) -> None:
        """No stock plugin names anybody."""


def may_be_ready(job: Job, failed: set[str]) -> bool:
    """Return whether a job may still have its minimum although tasks of these roles found no node."""
    if job.minimum == len(job.tasks):
        return False
    if not job.roles:
        return True
    if job.minimum < sum(job.roles.values()):
        left = sum(task.role not in failed for task in job.tasks if task.status == "Pending")
        return job.count(*READY, "Pipelined") + left >= job.minimum
    have = Counter(task.role for task in job.tasks if task.status in (*READY, "Pipelined"))
    return all(have[role] >= job.roles.get(role, 0) for role in failed)
