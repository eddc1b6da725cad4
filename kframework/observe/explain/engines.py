"""The door for engines that explain what they did: an explanation of their own, and its route at a scheduler's port.

`kframework explain` prints it as it is: an engine brings the words and the data.
"""

from __future__ import annotations

from kframework.errors import visible
from kframework.observe.explain.explanation import EngineExplanation, Unexplainable
from kframework.observe.explain.routes import STANDS_BY, explain_route
from kframework.observe.explain.slices import finished, finished_giving_way
from kframework.observe.text_table import NONE, table

__all__ = [
    "NONE",
    "STANDS_BY",
    "EngineExplanation",
    "Unexplainable",
    "explain_route",
    "finished",
    "finished_giving_way",
    "table",
    "visible",
]
