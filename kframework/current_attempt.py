"""The attempt that work belongs to: that of the cycle, and of what the cycle started, such as its binding."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from kframework.state.pods import PodInfo

__all__ = ["CURRENT", "CurrentAttempt"]


class CurrentAttempt(NamedTuple):
    """A pod that is tried, and the number of the attempt."""

    pod: PodInfo
    number: int


#: None between two attempts; a task goes on belonging to the attempt that started it.
CURRENT: Final[ContextVar[CurrentAttempt | None]] = ContextVar("kframework attempt", default=None)
