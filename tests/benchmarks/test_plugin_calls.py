"""The benchmark of plugins by zones and by load counts their calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.plugin_calls import PLUGINS, count_cycles


@pytest.mark.parametrize("plugin", PLUGINS)
def test_answers_are_kept_for_the_next_pod_of_a_kind(plugin: str, tmp_path: Path) -> None:
    without, counted = (count_cycles(name, tmp_path, nodes=120) for name in ("", plugin))
    first, following = (calls - base for calls, base in zip(counted, without, strict=True))
    assert first > 3 * following > 0
