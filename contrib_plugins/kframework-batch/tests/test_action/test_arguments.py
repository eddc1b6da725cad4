"""Arguments of actions: Volcano's are all known, so that its files load without a notice."""

from __future__ import annotations

import pytest
from kframework_batch.config import parse
from kframework_batch.program import compile_program


@pytest.mark.parametrize("action", ["allocate", "backfill", "preempt", "reclaim"])
def test_predicate_error_cache_argument_is_accepted(action: str) -> None:
    text = f"actions: {action}\nconfigurations:\n- name: {action}\n  arguments:\n    predicateErrorCacheEnable: false\n"
    assert compile_program(parse(text)).notices == ()


def test_unknown_argument_is_a_notice() -> None:
    text = "actions: allocate\nconfigurations:\n- name: allocate\n  arguments:\n    predicateErrorCache: false\n"
    (notice,) = compile_program(parse(text)).notices
    assert "predicateErrorCache" in notice
