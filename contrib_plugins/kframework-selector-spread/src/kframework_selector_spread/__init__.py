"""SelectorSpread: keep the pods of one service or controller on different nodes and in different zones."""

from __future__ import annotations

from kframework_selector_spread.spread import SelectorSpread

__all__ = ["SelectorSpread"]
