"""What every test has: verified answers, one backend, a loop that nobody blocks, outside tools that may be missing."""

from __future__ import annotations

import os

# Every remembered or incremental answer is asked again afresh and compared. Set before anything of ours is imported.
os.environ["KFRAMEWORK_VERIFY"] = "1"

import inspect
import shutil
from collections import Counter
from collections.abc import Iterator

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester"]

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("kframework", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kframework")


@pytest.fixture(scope="session")
def anyio_backend() -> object:
    """Run async tests on asyncio.

    A module that wants virtual time overrides this with `("asyncio", {"loop_factory": ...})`.
    """
    return "asyncio"


@pytest.fixture(autouse=True)
def _blocking_the_loop_fails(request: pytest.FixtureRequest) -> Iterator[None]:
    asynchronous = inspect.iscoroutinefunction(getattr(request.node, "obj", None))
    if not asynchronous or request.node.get_closest_marker("blocks_loop"):
        yield
        return
    with blockbuster_ctx("kframework"):
        yield


_needed = pytest.StashKey[Counter[str]]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests whose outside tool is missing; in CI that is an error."""
    missing = {item: tool for item in items if (tool := _missing_tool(item))}
    needed = Counter(missing.values())
    if needed and os.environ.get("KFRAMEWORK_CI_TOOLS") == "require":
        raise pytest.UsageError(f"missing tools: {_sentence(needed)}")
    config.stash[_needed] = needed
    config.hook.pytest_deselected(items=list(missing))
    items[:] = [item for item in items if item not in missing]


def _missing_tool(item: pytest.Item) -> str | None:
    tools = (name for marker in item.iter_markers("tool") for name in marker.args)
    return next((name for name in tools if shutil.which(name) is None), None)


def _sentence(needed: Counter[str]) -> str:
    counts = sorted(needed.items())
    return ", ".join(f"{count} tests need {name}" if count > 1 else f"1 test needs {name}" for name, count in counts)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand what was deselected from an xdist worker to its controller."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["deselected_for_tools"] = dict(session.config.stash.get(_needed, Counter[str]()))


@pytest.hookimpl(optionalhook=True)  # xdist's hook
def pytest_testnodedown(node: object) -> None:
    """Take what an xdist worker deselected; every worker collects the same tests."""
    output = getattr(node, "workeroutput", {})
    config: pytest.Config = node.config  # type: ignore[attr-defined]  # xdist has no types
    config.stash[_needed] = Counter(output.get("deselected_for_tools", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the missing tools in one line."""
    needed = config.stash.get(_needed, Counter[str]())
    if needed:
        terminalreporter.write_line(f"deselected: {_sentence(needed)}")
