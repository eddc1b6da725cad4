"""A violation names the call, its result, the fix, and where."""

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


def violation(call: str, remedy: str = "score less", cause: BaseException | None = None) -> ContractViolation:
    """Make one."""
    return ContractViolation(Mine, call=call, result="101", remedy=remedy, when="at the start", cause=cause)


def test_violation_is_formatted_with_its_fields() -> None:
    created = violation("score of pod a")
    assert str(created).splitlines() == [
        "Mine breaks the contract",
        "  call:   score of pod a",
        "  result: 101",
        "  to fix: score less",
        f"  where:  {created.where}",
        "  when:   at the start",
    ]
    assert (created.plugin, created.call, created.remedy) == ("Mine", "score of pod a", "score less")


@pytest.mark.parametrize(
    ("call", "remedy", "line"),
    [
        pytest.param("memory, then score of pod a", "", "@hookimpl", id="the called hook"),
        pytest.param("memory of pod a", "let `score` answer more", "@hookimpl", id="the hook to change"),
        pytest.param("the same in a replay", "keep nothing", "class Mine(Plugin):", id="the class"),
    ],
)
def test_violation_is_located_at_the_hook_or_the_class(call: str, remedy: str, line: str) -> None:
    file, _, number = violation(call, remedy).where.rpartition(":")
    assert (file, linecache.getline(file, int(number)).strip()) == (__file__, line)


def test_violation_is_located_where_the_hook_raised() -> None:
    try:
        raise KeyError("missing")
    except KeyError as error:
        where, line = violation("score of pod a", cause=error).where, error.__traceback__
    assert line is not None and where == f"{__file__}:{line.tb_lineno}"
