"""The observers of a scheduler: each is notified of all records, and its exceptions affect nothing else."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from kframework.core.cycle.records import (
    AccountObserver,
    Binding,
    Decision,
    GroupDecision,
    GroupObserver,
    HookTracer,
    Observer,
)
from kframework.core.cycle.run import Run, RunBinding, RunObserver

_log = logging.getLogger(__name__)

T = TypeVar("T")


class NotifiedObservers:
    """Observers that are notified together; what some of them do not receive, they are not asked about each time."""

    def __init__(self, observers: Iterable[Observer]) -> None:
        self._all: tuple[Observer, ...] = tuple(observers)
        #: Each observer, and itself again if it accepts whole runs: that check takes a microsecond.
        self._of_runs: tuple[tuple[Observer, RunObserver | None], ...] = tuple(
            (each, each if isinstance(each, RunObserver) else None) for each in self._all
        )
        self._of_groups = tuple(each for each in self._all if isinstance(each, GroupObserver))
        self._of_accounts = tuple(each for each in self._all if isinstance(each, AccountObserver))
        #: The first that traces hooks, None without any.
        self.hook_tracer: HookTracer | None = next((each for each in self._all if isinstance(each, HookTracer)), None)

    def report_decision(self, decision: Decision) -> None:
        for observer in self._all:
            _notify(observer, observer.on_decision, decision)

    def report_binding(self, binding: Binding) -> None:
        for observer in self._all:
            _notify(observer, observer.on_binding, binding)

    def report_run(self, run: Run) -> None:
        """Report the decisions of a run."""
        for observer, of_runs in self._of_runs:
            if of_runs is not None:
                _notify(observer, of_runs.on_run, run)
            else:
                for decision in run:
                    _notify(observer, observer.on_decision, decision)

    def report_run_binding(self, bound: RunBinding) -> None:
        for observer, of_runs in self._of_runs:
            if of_runs is not None:
                _notify(observer, of_runs.on_run_binding, bound)
            else:
                for binding in bound:
                    _notify(observer, observer.on_binding, binding)

    def report_group_decision(self, decision: GroupDecision) -> None:
        for observer in self._of_groups:
            _notify(observer, observer.on_group_decision, decision)

    def report_account(self, account: msgspec.Struct) -> None:
        for observer in self._of_accounts:
            _notify(observer, observer.on_account, account)


def _notify(observer: object, notify: Callable[[T], None], subject: T) -> None:
    try:
        notify(subject)
    except Exception:
        _log.exception("observer %s failed", type(observer).__name__)
