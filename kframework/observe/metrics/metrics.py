"""All that one process counts: what the records tell, what stands in the engine, requests, and health checks."""

from __future__ import annotations

import platform

from kframework._version import __version__
from kframework.core.pod_engine import PodEngine
from kframework.observe.metrics import families
from kframework.observe.metrics.attempts import Attempts
from kframework.observe.metrics.devices import DeviceCounts
from kframework.observe.metrics.events import EventTimes
from kframework.observe.metrics.readings import engine_readings
from kframework.observe.metrics.requests import RequestCounts
from kframework.observe.metrics.series import Counts, Readings, Series, as_labels

#: The release of Kubernetes whose scheduler is followed.
_FOLLOWED = ("1", "36", "v1.36.2")

#: What Go calls the processors that Python names otherwise.
_GO_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


class Metrics:
    """All that one process counts: `attempts` is an observer of its scheduler, the others are told what they count."""

    def __init__(self) -> None:
        self.attempts: Attempts = Attempts()
        self.devices: DeviceCounts = DeviceCounts()
        self.events: EventTimes = EventTimes()
        self.requests: RequestCounts = RequestCounts()
        self.health: HealthResults = HealthResults()
        #: Counted in the watchdog's thread, and copied at once by whoever reads it.
        self.slow_hooks: dict[tuple[str, ...], int] = {}

    @property
    def series(self) -> tuple[Series, ...]:
        """What is counted whichever engine it is."""
        return (
            *self.attempts.series,
            *self.devices.series,
            *self.requests.series,
            Readings(families.SLOW_HOOKS, self.slow_hooks.copy),
            build_info(),
        )

    def slow(self, plugin: str, hook: str) -> None:
        """Take notice of a hook that held the loop."""
        self.slow_hooks[plugin, hook] = self.slow_hooks.get((plugin, hook), 0) + 1

    def attach(self, engine: PodEngine) -> tuple[Series, ...]:
        """Begin to count what happens in an engine that has not begun; return all series of `/metrics`."""
        self.devices.attach(engine.profiles)
        self.events.attach(engine, self.attempts.gated)
        return (*self.series, *self.events.series, *engine_readings(engine))


class HealthResults:
    """Counts the results of health checks, and keeps the last of each, as `/metrics/slis` shows it."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, ...], int] = {}
        self._counts = Counts(families.HEALTHCHECKS, as_labels)
        #: All that is counted here.
        self.series: tuple[Series, ...] = (Readings(families.HEALTHCHECK, lambda: self._last), self._counts)

    def checked(self, endpoint: str, check: str, problem: str | None) -> None:
        """Take notice of a check that was asked for at an endpoint: `livez`, `readyz`, `healthz`."""
        self._last[check, endpoint] = int(problem is None)
        self._counts[check, endpoint, "success" if problem is None else "error"] += 1


def build_info() -> Series:
    """Return what says which versions run."""
    system, machine = platform.system().lower(), platform.machine()
    major, minor, version = _FOLLOWED
    labels = (
        major,
        minor,
        f"{version}+kframework.{__version__}",
        "",
        "",
        "",
        "",
        f"{platform.python_implementation().lower()}-{platform.python_version()}",
        f"{system}/{_GO_MACHINES.get(machine, machine)}",
    )
    return Readings(families.BUILD_INFO, lambda: {labels: 1})
