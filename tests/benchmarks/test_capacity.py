"""The benchmark of questions about capacity runs, in small."""

from __future__ import annotations

import pytest

from benchmarks.capacity import main

pytestmark = pytest.mark.slow


def test_every_question_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    main(20)
    assert len(capsys.readouterr().out.splitlines()) == 4
