"""The suite's own rules, tried on planted suites."""

from __future__ import annotations

from pathlib import Path

import numpy  # noqa: F401  # cannot be loaded twice, and pytester forgets what its runs load first
import pytest

import tests.conftest
from tests.architecture.sources import ROOT

NEEDS_TOOLS = """
import pytest

@pytest.mark.tool("no-such-tool")
@pytest.mark.parametrize("n", range(2))
def test_twice(n): ...

@pytest.mark.tool("sh")
@pytest.mark.tool("no-other-tool")
def test_both(): ...

@pytest.mark.tool("sh")
def test_shell(): ...
"""

MISSING = "deselected: 1 test needs no-other-tool, 2 tests need no-such-tool"


@pytest.fixture(autouse=True)
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant the conftest and the settings of this project."""
    monkeypatch.delenv("KFRAMEWORK_CI_TOOLS", raising=False)
    monkeypatch.delenv("KUBE_ASSETS", raising=False)
    pytester.makeconftest(Path(tests.conftest.__file__).read_text())
    pytester.makepyprojecttoml((ROOT / "pyproject.toml").read_text())


def test_tests_with_a_missing_tool_are_deselected_and_named(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(NEEDS_TOOLS)
    result = pytester.runpytest_inprocess(".")
    result.assert_outcomes(passed=1, deselected=3)
    assert MISSING in result.outlines


@pytest.mark.slow
def test_deselected_tests_are_named_under_xdist(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(NEEDS_TOOLS)
    result = pytester.runpytest_subprocess("-n1", ".")
    assert result.ret == 0
    assert MISSING in result.outlines


def test_tests_with_a_missing_tool_fail_in_ci(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFRAMEWORK_CI_TOOLS", "require")
    pytester.makepyfile(NEEDS_TOOLS)
    result = pytester.runpytest_inprocess(".")
    result.assert_outcomes(passed=1, errors=3)
    result.stdout.fnmatch_lines(["this test needs no-such-tool"])


@pytest.mark.parametrize("tools", ["", "require"])
def test_real_server_tests_are_deselected_without_one(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tools: str
) -> None:
    monkeypatch.setenv("KFRAMEWORK_CI_TOOLS", tools)
    pytester.makepyfile("import pytest\n@pytest.mark.real\ndef test_real(): ...\ndef test_plain(): ...")
    result = pytester.runpytest_inprocess(".")
    result.assert_outcomes(passed=1, deselected=1)
    assert "deselected: 1 test needs KUBE_ASSETS" in result.outlines
    monkeypatch.setenv("KUBE_ASSETS", "bin")
    pytester.runpytest_inprocess(".").assert_outcomes(passed=2)


def test_nothing_is_reported_if_no_tool_is_missing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_plain(): ...")
    assert "deselected" not in pytester.runpytest_inprocess(".").stdout.str()


def test_test_that_blocks_the_loop_fails(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import time
        import pytest
        from kframework.errors import nearest_name

        def names():
            time.sleep(0)
            yield "NodeName"

        async def test_blocks():
            nearest_name("nodename", names())

        @pytest.mark.blocks_loop
        async def test_may_block():
            nearest_name("nodename", names())

        def test_has_no_loop():
            nearest_name("nodename", names())
        """
    )
    result = pytester.runpytest_inprocess(".")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*BlockingError: Blocking call to time.sleep*"])


def test_slow_tests_in_unlisted_folders_are_rejected(pytester: pytest.Pytester) -> None:
    """Where the mark comes from another module."""
    pytester.makepyfile(
        marked="import pytest\ndear = pytest.mark.slow",
        test_mine="import marked\npytestmark = marked.dear\ndef test_it(): ...",
    )
    result = pytester.runpytest_inprocess(".")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*`make slow` would pass over slow tests: *test_mine.py"])


def test_make_runs_every_folder_with_slow_tests() -> None:
    assert f"'{tests.conftest.MAY_BE_SLOW}'" in (ROOT / "Makefile").read_text()


def test_modules_with_long_tests_run_first(pytester: pytest.Pytester) -> None:
    long = "import pytest\ndef test_short(): ...\n@pytest.mark.timeout(61)\ndef test_long(): ..."
    pytester.makepyfile(test_a="def test_a(): ...", test_b=long, test_c="def test_c(): ...")
    result = pytester.runpytest_inprocess("--collect-only", "-q", "-p", "no:randomly", ".")
    assert result.outlines[:4] == [
        f"test_{name}" for name in ("b.py::test_short", "b.py::test_long", "a.py::test_a", "c.py::test_c")
    ]
