"""A hook that holds the loop is named while it does, with the line it is on; time is what a test says it is."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
from asyncio.events import Handle
from pathlib import Path
from types import FrameType

import pytest

from kframework import CycleState, PendingPod, Plugin, hookimpl
from kframework.clock import run_virtual
from kframework.core.runtime.profile import Profile
from kframework.scheduler.watchdog import BLOCK_LIMIT, LOG_INTERVAL, Watchdog, find_position
from kframework.state.nodes import NodeInfo
from kframework.state.pod_templates import TemplateInterner
from kframework.testing import make_pod
from tests.extension_points.scripted import profile

STEP = BLOCK_LIMIT / 5


class Hooked(Plugin):
    """Lets a test do in its hooks what it likes."""

    name = "Hooked"
    work: object = None

    def do(self) -> None:
        assert callable(self.work)
        self.work()

    @hookimpl
    def filter(self, state: CycleState, pod: PendingPod, node: NodeInfo) -> None:
        self.do()

    @hookimpl
    async def pre_bind(self, state: CycleState, pod: PendingPod, node_name: str) -> None:
        self.do()

    async def poll(self) -> None:
        self.do()


class Other(Hooked):
    name = "Other"


def line_of(mark: str) -> str:
    """Return the place of the line of this file that is marked so."""
    lines = Path(__file__).read_text().splitlines()
    (number,) = (number for number, line in enumerate(lines, 1) if line.endswith(f"# {mark}"))
    return f"{__file__}:{number}"


class Bench:
    """Two plugins, the watchdog of them, and a clock that goes on when a hook says so."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.profile: Profile = profile(Hooked, Other)
        self.now = self.worked = self.collected = 0.0
        self.told: list[tuple[str, str]] = []
        plugins = [(self.profile, plugin) for plugin in self.profile.plugins.values()]
        self.watchdog = Watchdog(
            plugins, lambda *hook: self.told.append(hook), now=lambda: self.now, cpu_clock=lambda: self.worked
        )
        self.watchdog._select = lambda timeout: []
        self.caplog = caplog

    def plugin(self, name: str) -> Hooked:
        found = self.profile.plugins[name]
        assert isinstance(found, Hooked)
        return found

    def turn(self, *calls: object) -> None:
        """Let the loop go on with one callback, in which all of these are called."""
        self.watchdog.select(0.0)

        def callback() -> None:
            for call in calls:
                assert callable(call)
                call()

        loop = asyncio.new_event_loop()
        Handle(callback, (), loop)._run()
        loop.close()

    def filter(self, name: str, seconds: float, pod: str = "web") -> object:
        """Return a call of `filter` that takes so long, and is looked at as often as it should be."""
        plugin = self.plugin(name)

        def work() -> None:
            for _ in range(round(seconds / STEP)):
                self.now += STEP
                self.watchdog.inspect(sys._getframe())  # looked at

        def call() -> None:
            plugin.work = work
            plugin.filter(CycleState(), PendingPod(make_pod(pod), TemplateInterner()), None)  # type: ignore[arg-type]  # unused

        return call

    @property
    def lines(self) -> list[str]:
        return [f"{each.getMessage()} {getattr(each, 'pod', '')}" for each in self.caplog.records]


@pytest.fixture
def bench(caplog: pytest.LogCaptureFixture) -> Bench:
    return Bench(caplog)


def named(plugin: str, hook: str, milliseconds: int, pod: str = "default/web") -> str:
    where = f"plugin {plugin!r} (from acme 1.0), hook {hook}"
    return f"{where}: has blocked the event loop for {milliseconds} ms, at {line_of('looked at')} {pod}"


def test_hook_that_holds_the_loop_is_named_with_plugin_hook_pod_and_line(bench: Bench) -> None:
    bench.turn(bench.filter("Hooked", 2 * BLOCK_LIMIT))
    assert bench.lines == [named("Hooked", "filter", 50)]
    assert bench.told == [("Hooked", "filter")]


@pytest.mark.parametrize(
    "turns",
    [
        [[("Hooked", 0.8 * BLOCK_LIMIT)]],
        [[("Hooked", 0.8 * BLOCK_LIMIT)], [("Hooked", 0.8 * BLOCK_LIMIT)]],
        [[("Hooked", 0.8 * BLOCK_LIMIT), ("Other", 0.8 * BLOCK_LIMIT)]],
        [[("Hooked", 0.8 * BLOCK_LIMIT, "one"), ("Hooked", 0.8 * BLOCK_LIMIT, "two")]],
    ],
    ids=["one", "two turns of the loop", "two plugins", "two pods"],
)
def test_hook_that_is_quick_enough_is_not_named(bench: Bench, turns: list[list[tuple[str, float]]]) -> None:
    for turn in turns:
        bench.turn(*(bench.filter(*each) for each in turn))
    assert (bench.lines, bench.told) == ([], [])


def test_many_calls_for_one_pod_hold_the_loop_together(bench: Bench) -> None:
    bench.turn(*[bench.filter("Hooked", STEP), bench.filter("Other", STEP)] * 6)
    assert bench.told == [("Hooked", "filter"), ("Other", "filter")]


def test_hook_is_named_once_a_minute_and_counted_each_time(bench: Bench) -> None:
    for pause in (0.0, LOG_INTERVAL / 2, LOG_INTERVAL / 2, 1.0):
        bench.now += pause
        bench.turn(bench.filter("Hooked", 1.2 * BLOCK_LIMIT))
    bench.turn(bench.filter("Other", 1.2 * BLOCK_LIMIT))
    assert [line.partition(":")[0] for line in bench.lines] == [
        "plugin 'Hooked' (from acme 1.0), hook filter",
        "plugin 'Hooked' (from acme 1.0), hook filter",
        "plugin 'Other' (from acme 1.0), hook filter",
    ]
    assert bench.told == [("Hooked", "filter")] * 4 + [("Other", "filter")]


@pytest.mark.parametrize(("worked", "lines"), [(0.0, 0), (0.2, 1)], ids=["stood still", "worked"])
def test_pause_of_the_whole_process_is_no_hooks_fault(bench: Bench, worked: float, lines: int) -> None:
    bench.worked = 9.0  # in turns of the loop that were not looked at

    def work() -> None:
        bench.now += 0.2
        bench.worked += worked
        bench.watchdog.inspect(sys._getframe())

    plugin = bench.plugin("Hooked")
    plugin.work = work
    # The node is not looked at.
    bench.turn(lambda: plugin.filter(CycleState(), PendingPod(make_pod(), TemplateInterner()), None))  # type: ignore[arg-type]
    assert len(bench.lines) == lines


def test_nor_is_the_collection_of_garbage(bench: Bench) -> None:
    def work() -> None:
        for _ in range(5):
            bench.watchdog.collect("start", {})
            bench.now += STEP
            bench.watchdog.collect("stop", {})
            bench.watchdog.inspect(sys._getframe())

    plugin = bench.plugin("Hooked")
    plugin.work = work
    # The node is not looked at.
    bench.turn(lambda: plugin.filter(CycleState(), PendingPod(make_pod(), TemplateInterner()), None))  # type: ignore[arg-type]
    assert bench.lines == []


def frames_of(plugin: Hooked, call: object) -> list[FrameType]:
    """Return the frames inside a call, the innermost first."""
    found: list[FrameType] = []

    def work() -> None:
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame.f_code not in (Handle._run.__code__, frames_of.__code__):
            found.append(frame)
            frame = frame.f_back

    plugin.work = work
    assert callable(call)
    result = call()
    if asyncio.iscoroutine(result):
        run_virtual(lambda: result)
    return found


def test_location_is_found_in_coroutines_and_outside_hooks(bench: Bench) -> None:
    plugin = bench.plugin("Hooked")
    pod = PendingPod(make_pod("web"), TemplateInterner())
    frames = frames_of(plugin, lambda: plugin.pre_bind(CycleState(), pod, "a"))
    line = f"{__file__}:{frames[0].f_lineno}"
    assert find_position(frames, {plugin}) == (plugin, "pre_bind", line, "default/web")
    assert find_position(frames_of(plugin, plugin.poll), {plugin}) == (plugin, "poll", line, "")
    assert find_position(frames, {bench.profile.plugins["Sort"]}) is None
    assert find_position([], {plugin}) is None


@pytest.mark.parametrize("virtual", [False, True])
def test_loop_is_watched_from_another_thread(bench: Bench, caplog: pytest.LogCaptureFixture, virtual: bool) -> None:
    """The hook really blocks, until it is released."""
    plugin, blamed = bench.plugin("Hooked"), threading.Event()
    plugin.work = lambda: blamed.wait(60)

    async def main() -> None:
        selector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]  # where it is put back
        select, collect_errors = selector.select, list(gc.callbacks)
        with Watchdog([(bench.profile, plugin)], lambda *hook: blamed.set(), limit=0.01):
            await asyncio.sleep(0.5)
            await plugin.pre_bind(CycleState(), PendingPod(make_pod("web"), TemplateInterner()), "a")
        assert (selector.select, gc.callbacks) == (select, collect_errors)

    with caplog.at_level(logging.WARNING):
        if virtual:
            run_virtual(main)
        else:
            asyncio.run(main())
    assert blamed.is_set()
