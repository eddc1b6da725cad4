"""The door for engines that show themselves: on a scheduler's page and in reports, and where they are asked why."""

from __future__ import annotations

from kframework.errors import visible
from kframework.explain.routes import STANDS_BY, explain_route
from kframework.observe.history import History
from kframework.observe.last_records import LastRecords
from kframework.observe.report import report
from kframework.observe.text_table import NONE, table
from kframework.observe.web.sections import Cell, Column, Details, Kind, Ref, Row, Section, Tone
from kframework.observe.web.shown import BINDING, EngineExplanation, Shown, ShownPod, created
from kframework.scheduler.slices import at_rest, finished, finished_giving_way

__all__ = [
    "BINDING",
    "NONE",
    "STANDS_BY",
    "Cell",
    "Column",
    "Details",
    "EngineExplanation",
    "History",
    "Kind",
    "LastRecords",
    "Ref",
    "Row",
    "Section",
    "Shown",
    "ShownPod",
    "Tone",
    "at_rest",
    "created",
    "explain_route",
    "finished",
    "finished_giving_way",
    "report",
    "table",
    "visible",
]
