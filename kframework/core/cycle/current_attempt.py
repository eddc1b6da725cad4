"""The attempt that work belongs to: that of the cycle, and of what the cycle started, such as its binding."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kframework.state.pods import PodInfo

#: The pod that is tried, and the number of the attempt; None between two attempts. A task goes on belonging to the
#: attempt that started it. A plain tuple, as it is set in every cycle.
CURRENT: Final[ContextVar[tuple[PodInfo, int] | None]] = ContextVar("kframework attempt", default=None)
