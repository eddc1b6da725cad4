"""A violation says itself what was asked, what was answered, what to change, and where."""

from __future__ import annotations

import linecache

import pytest

from kframework import Plugin, hookimpl
from kframework.framework.cycle_state import CycleState
from kframework.state.nodes import NodeInfo
from kframework.state.pods import PendingPod
from kframework.testing import ContractViolation


class Mine(Plugin):
    """Scores too much."""

    name = "Mine"

    @hookimpl
    def score(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> int:
        return 101


def violation(asked: str, remedy: str = "score less", cause: BaseException | None = None) -> ContractViolation:
    """Make one."""
    return ContractViolation(Mine, asked=asked, answered="101", remedy=remedy, when="at the start", cause=cause)


def test_it_tells_what_it_carries() -> None:
    made = violation("score of pod a")
    assert str(made).splitlines() == [
        "Mine breaks the contract",
        "  asked:     score of pod a",
        "  answered:  101",
        "  to change: score less",
        f"  where:     {made.where}",
        "  when:      at the start",
    ]
    assert (made.plugin, made.asked, made.remedy) == ("Mine", "score of pod a", "score less")


@pytest.mark.parametrize(
    ("asked", "remedy", "line"),
    [
        pytest.param("memory, then score of pod a", "", "@hookimpl", id="the hook that was asked"),
        pytest.param("memory of pod a", "let `score` say more", "@hookimpl", id="the hook to change"),
        pytest.param("the same in a replay", "keep nothing", "class Mine(Plugin):", id="the class"),
    ],
)
def test_it_is_at_the_hook_or_the_class(asked: str, remedy: str, line: str) -> None:
    file, _, number = violation(asked, remedy).where.rpartition(":")
    assert (file, linecache.getline(file, int(number)).strip()) == (__file__, line)


def test_it_is_where_the_hook_raised() -> None:
    try:
        raise KeyError("missing")
    except KeyError as error:
        where, line = violation("score of pod a", cause=error).where, error.__traceback__
    assert line is not None and where == f"{__file__}:{line.tb_lineno}"
