"""The door for engines that are traced: what they tell of their accounts becomes spans as those of attempts do.

An observer of the engine's own gets its accounts (`accounted`) and tells a Tracing: `tracing.tell(name, draw, make)`.
The Tracing decides by the draw whether it is of the sample, and exports the Span that is made then.
"""

from __future__ import annotations

from kframework.observe.tracing.span import Span
from kframework.observe.tracing.spans import EVERY_ATTEMPT, Tracing
from kframework.observe.tracing.traces import Attributes

__all__ = ["EVERY_ATTEMPT", "Attributes", "Span", "Tracing"]
