"""What an action is: one pass over the jobs of a session, such as `allocate` or `preempt`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from kframework_batch.plugin import BatchArguments
from kframework_batch.session import Session


class Action:
    """An action of sessions; one instance is made for each mention in the configuration, and kept until that changes.

    `name` is its name in the configuration, the same as its entry point's; `Arguments` the model of its arguments.
    """

    name: ClassVar[str] = ""
    Arguments: ClassVar[type[BatchArguments]] = BatchArguments

    arguments: BatchArguments

    def __init__(self, arguments: BatchArguments) -> None:
        self.arguments = arguments

    def run(self, session: Session) -> Iterator[None]:
        """Do the work, and yield after each task, so that a long session can be cut into slices.

        Nothing of the cluster changes between two slices. What is to be undone when the session ends early belongs
        into `with session.statement()`.
        """
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{self.name or type(self).__name__}>"
