"""A session of a world as it was seen from outside, and accounts of it judged."""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeAlias

from kframework_batch.account import JobSummary, SessionAccount

from tests.support.batch_accounts.jobs import Job
from tests.support.batch_accounts.replay import Replay
from tests.support.batch_accounts.session_model import SessionModel

#: A World of the property tests.
World: TypeAlias = Any


class SessionScene:
    """A session of a world: what there was before it, what could be seen of it, and the account that it gave."""

    def __init__(self, world: World) -> None:
        """Let the world have a session."""
        self.tiers, self.fair, self.actions, self.time = world.tiers, world.fair, world.actions, world.time
        self.objects, self.held, done = dict(world.objects), dict(world.held), len(world.log)
        world.session()
        self.log = world.log[done:]
        self.after, self.conditions = dict(world.objects), dict(world.conditions)
        self.account: SessionAccount = world.accounts[-1]

    def of(self, kind: type[Any]) -> list[Any]:
        """List the objects of a kind."""
        return [obj for obj in self.objects.values() if isinstance(obj, kind)]

    def judge(self, account: SessionAccount) -> None:
        """AssertionError if an account is not true of this session."""
        stands = SessionModel(self)
        replay = Replay(stands, account)
        replay.run()
        said = [("bind", *pair) for pair in account.bound]
        assert [(what, key.split("/")[1], how) for what, key, how in said] == [e for e in self.log if e[0] == "bind"]
        said = [("evict", *pair) for pair in account.evicted]
        assert [(what, key.split("/")[1], why) for what, key, why in said] == [e for e in self.log if e[0] == "evict"]
        assert not account.failure
        left = {state.job: state for state in account.jobs}
        for job in stands.jobs.values():
            self.judge_job(job, replay.phases[job.uid], left.pop(job.uid, None))
        assert not left, f"there are no such jobs: {list(left)}"
        for gone in account.gone:
            assert gone.job not in stands.jobs or stands.jobs[gone.job].group is None, f"{gone.job} is there"
        for uid, error in replay.errors.items():
            if uid not in replay.placed:
                assert self.conditions[stands.tasks[uid].name].message == error

    def judge_job(self, job: Job, phase: str, state: JobSummary | None) -> None:
        """A job is left as its tasks stand, in the phase that was written."""
        group = None if job.group is None else self.after[type(job.group), job.group.metadata.name]
        next_phase = "" if group is None else group.status.phase
        unsettled = job.count("Pending", "Pipelined", "Allocated", "Binding", "Releasing")
        if not (unsettled or phase != next_phase or job.message):
            assert state is None
            return
        assert state is not None, f"it is not said how {job.uid} is left"
        assert (state.phase, state.next_phase) == (phase, next_phase)
        assert (state.queue, state.priority, state.minimum) == (job.queue, job.priority, job.minimum), state
        assert dict(state.tasks) == Counter(task.status for task in job.tasks)
        assert state.message == job.message
