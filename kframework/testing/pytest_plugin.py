"""Fixtures for the tests of plugins, which pytest finds by itself where kframework is installed.

`scenario`   makes a Scenario, whose decisions are shown where the test fails
`decisions`  what was decided in the scenarios so far
`spans`      the spans of the scenarios so far
`clock`      a clock that a test advances
`cluster`    a cluster in memory, by that clock
`fake_api`   a cluster with a `url` and a `kubeconfig`, served over HTTP to this machine

Nothing that is heavy is imported before a fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, TypeAlias

import pytest

if TYPE_CHECKING:
    from kframework.core.cycle.records import Observer
    from kframework.in_memory.cluster import MemoryCluster
    from kframework.testing import DecisionLog, Scenario, Spans, StubClock
    from kframework.testing.api_server import FakeApi

#: What makes a Scenario, of the same arguments.
MakeScenario: TypeAlias = "Callable[..., Scenario]"

_decisions = pytest.StashKey["DecisionLog"]()


@pytest.fixture
def _observers() -> list[Observer]:
    """Who observes the scenarios of the test."""
    return []


@pytest.fixture
def decisions(request: pytest.FixtureRequest, _observers: list[Observer]) -> DecisionLog:
    """What was decided in the test's scenarios; as text, a line for each attempt."""
    from kframework.testing.decision_log import DecisionLog

    log = DecisionLog()
    _observers.append(log)
    request.node.stash[_decisions] = log
    return log


@pytest.fixture
def spans(_observers: list[Observer]) -> Spans:
    """The spans of the test's scenarios, in memory."""
    from kframework.testing.spans import Spans

    collected = Spans()
    _observers.append(collected.observer)
    return collected


@pytest.fixture
def scenario(decisions: DecisionLog, _observers: list[Observer]) -> MakeScenario:
    """Make a Scenario, of the same arguments; where the test fails, its decisions are shown."""
    from kframework.testing.scenario import Scenario

    def make(**options: object) -> Scenario:
        return Scenario(**{"observers": _observers, **options})  # type: ignore[arg-type]  # the caller's are checked there

    return make


@pytest.fixture
def clock() -> StubClock:
    """A clock that a test advances."""
    from kframework.testing.stubs import StubClock

    return StubClock()


@pytest.fixture
def cluster(clock: StubClock) -> MemoryCluster:
    """An empty cluster in memory, by `clock`."""
    from kframework.in_memory.cluster import MemoryCluster

    return MemoryCluster(clock)


@pytest.fixture
def fake_api() -> Iterator[FakeApi]:
    """An empty cluster that is served over HTTP on this machine, in its own thread."""
    from kframework.testing.api_server import FakeApi

    with FakeApi() as api:
        yield api


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what was decided where a test fails."""
    report = yield
    log = item.stash.get(_decisions, None)
    if report.failed and report.when == "call" and log:
        report.sections.append(("decisions", str(log)))
    return report
