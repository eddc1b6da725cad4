"""Fields side by side."""

from __future__ import annotations

from kframework.testing.conformance.facts import Fact, beside, not_built


def test_every_key_of_either_side_becomes_a_fact() -> None:
    facts = list(beside({"a": 1, "b": 2}, {"b": 3, "c": 4}, "totals"))
    assert facts == [
        Fact(("totals", "a"), 1, None),
        Fact(("totals", "b"), 2, 3),
        Fact(("totals", "c"), None, 4),
    ]
    assert all(fact.differs for fact in facts)


def test_equal_values_do_not_differ() -> None:
    assert not Fact(("best",), ["a"], ["a"]).differs


def test_a_missing_plugin_is_the_reason() -> None:
    assert not_built("totals", "ImageLocality").reason == "ImageLocality is not built yet"
