"""Arguments of actions: Volcano's are all known, so that its files load without a notice."""

from __future__ import annotations

import pytest
from kframework_batch.config import parse
from kframework_batch.program import compile_program


@pytest.mark.parametrize("action", ["allocate", "backfill", "preempt", "reclaim"])
def test_the_switch_of_the_error_cache_is_known(action: str) -> None:
    text = f"actions: {action}\nconfigurations:\n- name: {action}\n  arguments:\n    predicateErrorCacheEnable: false\n"
    assert compile_program(parse(text)).notices == ()


def test_an_argument_that_nobody_knows_is_noticed() -> None:
    text = "actions: allocate\nconfigurations:\n- name: allocate\n  arguments:\n    predicateErrorCache: false\n"
    (notice,) = compile_program(parse(text)).notices
    assert "predicateErrorCache" in notice
