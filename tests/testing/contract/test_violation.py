"""A violation says itself what was asked, what was answered and what to change."""

from __future__ import annotations

from kframework.testing import ContractViolation


def test_it_tells_what_it_carries() -> None:
    violation = ContractViolation("Mine", asked="score", answered="101", remedy="score less", when="at the start")
    assert str(violation).splitlines() == [
        "Mine breaks the contract",
        "  asked:     score",
        "  answered:  101",
        "  to change: score less",
        "  when:      at the start",
    ]
    assert (violation.plugin, violation.asked, violation.remedy) == ("Mine", "score", "score less")
