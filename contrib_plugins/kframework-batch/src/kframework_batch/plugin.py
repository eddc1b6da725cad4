"""The parts of a session plugin: its base class, its arguments, the marker of its hooks, and its votes.

    class FewestJobs(BatchPlugin):
        \"\"\"Let the queue go first that has the fewest jobs.\"\"\"

        name = "fewestjobs"

        @hookimpl
        def queue_order(self, session, queue):
            return sum(job.queue == queue.name for job in session.jobs.values())

`kframework_batch.hookspecs` describes each hook.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from enum import IntEnum
from typing import ClassVar

import pluggy
from pydantic import BaseModel, ConfigDict

from kframework_batch.job import TaskInfo
from kframework_batch.session_view import SessionView

#: Marks a method as the implementation of a hook of sessions.
hookimpl: pluggy.HookimplMarker = pluggy.HookimplMarker("kframework_batch")


class Vote(IntEnum):
    """The vote of a plugin: one rejection of a tier decides, then one permission."""

    REJECT = -1
    ABSTAIN = 0
    PERMIT = 1


class BatchArguments(BaseModel):
    """The arguments of a plugin or an action, as they stand in the file under `arguments`.

    Give each field the file's spelling as its alias. Numbers and booleans may be text. Unknown fields cause a warning.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(populate_by_name=True, extra="allow", frozen=True)


class BatchPlugin:
    """A plugin of sessions; one instance is made for each entry of the configuration, and kept until that changes.

    `name` is its name in the configuration, the same as its entry point's; `Arguments` the model of its arguments.
    `hierarchical` is set before the first session: whether its entry in the configuration says `enableHierarchy: true`.
    """

    name: ClassVar[str] = ""
    Arguments: ClassVar[type[BatchArguments]] = BatchArguments

    arguments: BatchArguments
    hierarchical: bool = False

    def __init__(self, arguments: BatchArguments) -> None:
        self.arguments = arguments

    @property
    def core_filters(self) -> Sequence[str]:
        """The core's Filter plugins that it asks through `session.core`, in order."""
        return ()

    @property
    def core_scores(self) -> Mapping[str, int]:
        """The core's Score plugins that it asks there, with their weights."""
        return {}

    def sign(self, session: SessionView, task: TaskInfo) -> Hashable | None:
        """Return what `predicate` and `node_order` of this task depend on besides the node; None disables caching.

        Answers are cached per signature, for all tasks that have it, and computed again only for nodes that have
        changed: they may depend on the task only by what is signed, and on no other node.
        """
        return None
