"""The door for engines that show themselves: on the page of a scheduler and in reports, with tables of their own."""

from __future__ import annotations

from kframework.observe.history import History
from kframework.observe.last_records import LastRecords
from kframework.observe.report import report
from kframework.observe.web.sections import Cell, Column, Details, Kind, Ref, Row, Section, Tone
from kframework.observe.web.shown import BINDING, Shown, ShownPod, created

__all__ = [
    "BINDING",
    "Cell",
    "Column",
    "Details",
    "History",
    "Kind",
    "LastRecords",
    "Ref",
    "Row",
    "Section",
    "Shown",
    "ShownPod",
    "Tone",
    "created",
    "report",
]
