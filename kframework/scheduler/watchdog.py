"""The watchdog: it names the hook that blocks the loop, while it does.

Its own thread inspects the loop's thread, since the loop cannot while it is blocked. The loop only records when it
waits and when it resumes; hooks cost nothing. A simulation is not watched: recording each of its selects takes 9 %.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import sys
import threading
import time
from asyncio.events import Handle
from collections.abc import Callable, Collection, Iterable, Iterator
from types import FrameType
from typing import NamedTuple, Protocol, Self

from kframework.core.runtime.profile import Profile
from kframework.errors import PluginError
from kframework.framework.hookspecs import SPECIFICATIONS
from kframework.framework.plugin import Plugin
from kframework.state.pods import PodInfo, QueuedPod

_log = logging.getLogger(__name__)

#: How long a hook must block the loop to be named, and the interval until it is named again, in seconds.
BLOCK_LIMIT, LOG_INTERVAL = 0.05, 60.0

#: The number of samples in that time. If the time between two samples is that of three, the whole process was stopped,
#: as by a CPU limit; beyond that only the CPU time of the loop's thread counts.
_SAMPLES = 5

#: After this many samples of a waiting loop, sampling pauses until it resumes.
_IDLE_SAMPLES = 20

#: The code of a loop callback on the stack: while the same frame is there, no other callback has run.
_CALLBACK = Handle._run.__code__

_HOOKS = {
    name for protocol in SPECIFICATIONS for name, each in vars(protocol).items() if hasattr(each, "kframework_spec")
}
_HOOKS |= {"start", "close"}

#: Called for a hook that blocks the loop, with the names of the plugin and the hook.
SlowHookCallback = Callable[[str, str], None]


class HookPosition(NamedTuple):
    """The position of the loop in a plugin: its hook, line, and pod, "" if none.

    Functions that are no hooks, such as hints or spawned coroutines, are identified by name.
    """

    plugin: Plugin
    hook: str
    line: str
    pod: str


_Select = Callable[[float | None], list[object]]


class _Selector(Protocol):
    select: _Select


class Watchdog:
    """A monitor of the running loop while it is entered, for hooks of these plugins that block it for `limit` seconds.

    `on_slow_hook` is called each time in the watchdog's thread; the log gets one line per hook and minute. `now` is in
    seconds, and `cpu_clock` in CPU seconds of the loop's thread.
    """

    def __init__(
        self,
        plugins: Iterable[tuple[Profile, Plugin]],
        on_slow_hook: SlowHookCallback = lambda plugin, hook: None,
        *,
        limit: float = BLOCK_LIMIT,
        now: Callable[[], float] = time.perf_counter,
        cpu_clock: Callable[[], float] | None = None,
    ) -> None:
        self.watch(plugins)
        self._on_slow_hook = on_slow_hook
        self._limit = limit
        self._now = now
        self._read_cpu_clock = cpu_clock or _cpu_clock()
        self._pause = limit / _SAMPLES
        #: When the loop resumed, None while it waits; and the time of the last sample.
        self._since: float | None = None
        self._sampled_at = self._work = 0.0
        #: The current callback of the loop, and the sampled time in each hook and pod.
        self._callback: FrameType | None = None
        self._spent: dict[tuple[str, str, str], float] = {}
        #: The time of garbage collection since the last sample, which is not attributed to a hook.
        self._collected = 0.0
        #: The time at which each hook was last named.
        self._logged_at: dict[tuple[str, str], float] = {}
        self._idle = False
        self._awake, self._ended = threading.Event(), threading.Event()

    def watch(self, plugins: Iterable[tuple[Profile, Plugin]]) -> None:
        """Watch these plugins instead."""
        self._profiles = {plugin: profile for profile, plugin in plugins}  # its thread reads it

    def __enter__(self) -> Self:
        # asyncio offers no other hook for a waiting loop; one without a selector is not watched.
        self._selector: _Selector | None = getattr(asyncio.get_running_loop(), "_selector", None)
        if self._selector is not None:
            self._select: _Select = self._selector.select
            self._selector.select = self.select
            gc.callbacks.append(self.collect)
            self._since = self._now()
            loop = threading.get_ident()
            threading.Thread(target=self._run, args=(loop,), name="kframework watchdog", daemon=True).start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._ended.set()
        self._awake.set()
        if self._selector is not None:
            gc.callbacks.remove(self.collect)
            self._selector.select = self._select

    def select(self, timeout: float | None = None) -> list[object]:
        """Wait like the loop's own selector, and record that the loop waits."""
        self._since = None
        ready = self._select(timeout)
        self._since, self._collected, self._work = self._now(), 0.0, self._read_cpu_clock()
        if self._idle:
            self._awake.set()
        return ready

    def collect(self, phase: str, info: object) -> None:
        if phase == "start":
            self._collecting = self._now()
        else:
            self._collected += self._now() - self._collecting

    # -- in the watchdog's thread ----------------------------------------------------------------------------------

    def _run(self, loop: int) -> None:
        waits = 0
        while not self._ended.wait(self._pause):
            since = self._since
            waits = waits + 1 if since is None else 0
            if waits > _IDLE_SAMPLES:
                self._sleep()
            elif since is not None and self._now() - since >= self._pause:
                self.inspect(sys._current_frames().get(loop))
            else:
                self._callback = None

    def _sleep(self) -> None:
        self._idle = True
        if self._since is None:
            self._awake.wait()
        self._idle = False
        self._awake.clear()

    def inspect(self, frame: FrameType | None) -> None:
        """Sample the loop, and name a hook that has blocked it for too long."""
        now, since = self._now(), self._since
        if since is None:
            return
        took, self._sampled_at = now - max(since, self._sampled_at), now
        work, self._work = self._work, self._read_cpu_clock()
        took = min(took, max(2 * self._pause, self._work - work)) - self._collected
        self._collected = 0.0
        frames = list(_outer_frames(frame))
        callback = frames[-1] if frames and frames[-1].f_code is _CALLBACK else None
        if callback is not self._callback:
            self._callback, self._spent = callback, {}
        position = find_position(frames, self._profiles)
        if position is None:
            return
        key = position.plugin.name, position.hook
        before = self._spent.get((*key, position.pod), 0.0)
        spent = self._spent[*key, position.pod] = before + took
        if before < self._limit <= spent:
            self._on_slow_hook(*key)
        if spent >= self._limit and now - self._logged_at.get(key, -math.inf) >= LOG_INTERVAL:
            self._logged_at[key] = now
            name, hook = key
            text = f"has blocked the event loop for {spent * 1e3:.0f} ms, at {position.line}"
            distribution = self._profiles[position.plugin].distributions.get(name)
            fault = str(PluginError(text, plugin=name, hook=hook, distribution=distribution))
            _log.warning("%s", fault, extra={"pod": position.pod} if position.pod else {})


def find_position(frames: Iterable[FrameType], plugins: Collection[Plugin]) -> HookPosition | None:
    """Return the innermost position in these plugins, the innermost frame first; None if there is none."""
    owner, hook, line = None, None, ""
    inside = list[FrameType]()
    modules = _modules(plugins)
    for frame in frames:
        inside.append(frame)
        plugin = _plugin_of(frame, plugins, modules)
        if plugin is None or (owner is not None and plugin is not owner):
            continue
        if owner is None:
            owner = plugin
            at = next(each for each in inside if each is frame or _belongs_to(each, plugin))
            line = f"{at.f_code.co_filename}:{at.f_lineno}"
        if hook is None or frame.f_code.co_name in _HOOKS or hook.f_code.co_name not in _HOOKS:
            hook = frame
    if owner is None or hook is None:
        return None
    # The contract names the arguments of hooks.
    values = hook.f_locals
    queued = values.get("queued")
    pod = queued.pod if isinstance(queued, QueuedPod) else values.get("pod")
    return HookPosition(owner, hook.f_code.co_name, line, pod.key if isinstance(pod, PodInfo) else "")


def _cpu_clock() -> Callable[[], float]:
    """Return a clock of this thread's CPU seconds for other threads; always 0 if the system has none."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return lambda: 0.0
    clock = time.pthread_getcpuclockid(threading.get_ident())
    return lambda: time.clock_gettime(clock)


def _outer_frames(frame: FrameType | None) -> Iterator[FrameType]:
    """List a frame and its callers, up to the callback of the loop that they are in."""
    while frame is not None:
        yield frame
        frame = None if frame.f_code is _CALLBACK else frame.f_back


def _modules(plugins: Iterable[Plugin]) -> dict[str, Plugin]:
    found: dict[str, list[Plugin]] = {}
    for plugin in plugins:
        found.setdefault(type(plugin).__module__, []).append(plugin)
    return {module: plugins[0] for module, plugins in found.items() if len({type(plugin) for plugin in plugins}) == 1}


def _plugin_of(frame: FrameType, plugins: Collection[Plugin], modules: dict[str, Plugin]) -> Plugin | None:
    code = frame.f_code
    first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    if isinstance(first, Plugin) and first in plugins:
        return first
    return modules.get(frame.f_globals.get("__name__", ""))


def _belongs_to(frame: FrameType, plugin: Plugin) -> bool:
    """Return whether a frame belongs to the plugin's package, or to its module if the plugin is built in."""
    theirs, module = type(plugin).__module__, str(frame.f_globals.get("__name__", ""))
    top = theirs.partition(".")[0]
    return module == theirs or (top != "kframework" and module.partition(".")[0] == top)
