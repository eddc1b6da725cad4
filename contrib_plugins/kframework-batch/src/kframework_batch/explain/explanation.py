"""What an explanation of a job or a task consists of: plain data, the same as JSON and behind the text."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kframework_batch.account import QueueState, Turn, Victim


class Remedy(msgspec.Struct, frozen=True):
    """A change after which the job would be served, as was tried; these `victims` would have to go for it."""

    change: str
    victims: tuple[Victim, ...] = ()


class TaskPlace(msgspec.Struct, frozen=True):
    """A task, where it stands, and the node that it is on, if any."""

    pod: str
    status: str
    node: str = ""


class Stretch(msgspec.Struct, frozen=True):
    """Sessions one after the other, `first` to `last`, in which the same came of a job.

    It began `at` this time, in seconds since 1970, and lasted until the next one did; `said` is that in the words of
    the last session.
    """

    at: float
    first: str
    last: str
    said: tuple[str, ...]


class Explanation(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One job, explained, or one of its tasks (`pod`).

    `job` is the namespace/name of the pod group, `owner` what that belongs to (`Job default/resnet`), else itself.
    `at` is when this was found out, in seconds since 1970; `session` the one that `turns` and `queue` were taken from,
    at `session_at`. `order` names the queues as they were to be served then. `minimum` tasks are needed, `ready` have
    room. `message` is what stands against the job as a whole. `help` are changes that were tried, each by itself.

    `course` is what came of the job in all sessions that are remembered, the oldest first. Of a job whose pod group is
    gone, since `gone_at`, this is what they say; `phase` was its last.
    """

    engine: str = "batch"
    job: str
    owner: str = ""
    pod: str = ""
    at: float
    phase: str = ""
    priority: int = 0
    minimum: int = 0
    ready: int = 0
    requests: Mapping[str, int] = {}
    tasks: tuple[TaskPlace, ...] = ()
    queue: QueueState | None = None
    queue_name: str = ""
    order: tuple[str, ...] = ()
    session: str = ""
    session_at: float = 0.0
    turns: tuple[Turn, ...] = ()
    message: str = ""
    course: tuple[Stretch, ...] = ()
    gone_at: float = 0.0
    help: tuple[Remedy, ...] = ()
    notes: tuple[str, ...] = ()
