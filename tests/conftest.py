"""What every test has: one backend, a loop that no test blocks, outside tools that may be missing."""

from __future__ import annotations

import gc
import inspect
import os
import re
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import HealthCheck, settings

from tests.support.scale import EXAMPLES

pytest_plugins = ["pytester"]

# 17,000 collected tests live as long as the process: walked as often as Python would, they take a twelfth of its time.
gc.set_threshold(50_000, 10, 10)

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile(
    "kframework", max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("kframework")


@pytest.fixture(scope="session")
def anyio_backend() -> object:
    """Run async tests on asyncio.

    A module that wants virtual time overrides this with `("asyncio", {"loop_factory": VirtualTimeLoop})`.
    """
    return "asyncio"


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt, also where tests run in the background of a shell, which ignores it."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


@pytest.fixture
def frozen_heap() -> Iterator[None]:
    """Let collections scan only what the test creates: with the other tests each takes half a second."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def _blocking_the_loop_fails(request: pytest.FixtureRequest) -> Iterator[None]:
    asynchronous = inspect.iscoroutinefunction(getattr(request.node, "obj", None))
    if not asynchronous or request.node.get_closest_marker("blocks_loop"):
        yield
        return
    with blockbuster_ctx("kframework") as guard:
        for function in guard.functions.values():
            # Reads the metadata of distributions, once in a process.
            function.can_block_in("kframework/core/runtime/registry.py", {"installed_offers"})
        yield


#: What stands in a module that may have slow tests: `make slow` collects no others.
MAY_BE_SLOW = r"mark\.slow|support\.scale"

_deselected = pytest.StashKey[Counter[str]]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests whose outside tool is missing, but in CI only those without a real API server: others fail.

    Refuse slow tests that `make slow` would not find. Modules with tests that may take long come first: at the end no
    process is to wait for another that began such a test last.
    """
    long = {item.path for item in items if (marker := item.get_closest_marker("timeout")) and marker.args[0] > 60}
    items.sort(key=lambda item: item.path not in long)
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    if passed_over := sorted(str(path) for path in slow if not re.search(MAY_BE_SLOW, path.read_text())):
        raise pytest.UsageError(f"`make slow` would pass over slow tests: {', '.join(passed_over)}")
    in_ci = os.environ.get("KFRAMEWORK_CI_TOOLS") == "require"
    missing = {item: tool for item in items if (tool := _missing_assets(item) or (not in_ci and _missing_tool(item)))}
    config.stash[_deselected] = Counter(missing.values())
    config.hook.pytest_deselected(items=list(missing))
    items[:] = [item for item in items if item not in missing]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test that was not deselected although its tool is missing."""
    if tool := _missing_tool(item):
        pytest.fail(f"this test needs {tool}", pytrace=False)


def _missing_tool(item: pytest.Item) -> str | None:
    tools = (name for marker in item.iter_markers("tool") for name in marker.args)
    return next((name for name in tools if shutil.which(name) is None), None)


def _missing_assets(item: pytest.Item) -> str | None:
    return "KUBE_ASSETS" if item.get_closest_marker("real") and not os.environ.get("KUBE_ASSETS") else None


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand what was deselected from an xdist worker to its controller."""
    if hasattr(session.config, "workeroutput"):
        counts = session.config.stash[_deselected]
        session.config.workeroutput["deselected"] = dict(counts)


@pytest.hookimpl(optionalhook=True)  # there is none without xdist
def pytest_testnodedown(node: Any) -> None:
    """Take what an xdist worker deselected; every worker collects the same tests."""
    node.config.stash[_deselected] = Counter(getattr(node, "workeroutput", {}).get("deselected"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name the missing tools in one line."""
    counts = sorted(config.stash.get(_deselected, Counter[str]()).items())
    if counts:
        sentence = ", ".join(f"{n} tests need {tool}" if n > 1 else f"1 test needs {tool}" for tool, n in counts)
        terminalreporter.write_line(f"deselected: {sentence}")
