"""Another configuration for a running engine: the message that brings it, and what it may not change."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from kframework.config.configuration import Configuration
from kframework.core.cycle.suspendable import ExtenderClient
from kframework.core.queue.backoff import Backoff
from kframework.core.runtime.profiles import Profiles
from kframework.errors import ConfigError, raise_collected
from kframework.objects.problem import FieldPath, Problem
from kframework.state.inbox import EngineMessage

#: The fields of the two documents that are read only when a scheduler starts.
_FIXED_SETTINGS = ("leader_election", "client_connection", "enable_profiling", "delay_cache_until_active")
_FIXED_OPTIONS = ("seed", "tracing", "emulated_version", "feature_gates")

_REMEDY = "restart the scheduler for that"


class ConfigurationChanged(EngineMessage, frozen=True, eq=False):
    """A message that the engine decides by another configuration from the next cycle on.

    `profiles` are compiled for this engine, beside its own; `extenders` are the same object if they stay. The engine
    calls `on_taken` when it has taken it.
    """

    configuration: Configuration
    profiles: Profiles
    extenders: ExtenderClient
    on_taken: Callable[[], None] = lambda: None

    @property
    def queue_times(self) -> tuple[Backoff, float]:
        """The backoff of pods, and when one is retried without an event, in seconds."""
        settings, options = self.configuration.settings, self.configuration.options
        backoff = Backoff(settings.pod_initial_backoff_seconds, settings.pod_max_backoff_seconds)
        return backoff, options.pod_max_in_unschedulable_pods_duration


def refuse_fixed_fields(running: Configuration, other: Configuration) -> None:
    """Raise ConfigError (ConfigErrors) for each field that is different and that a running scheduler cannot change."""
    document = other.profiles[0].location.document
    settings = _differences(running.settings, other.settings, _FIXED_SETTINGS)
    options = _differences(running.options, other.options, _FIXED_OPTIONS)
    raise_collected(
        [
            *(document.at(*path).error(Problem((), text)) for path, text in settings),
            # Their document may be another one of the file, whose lines are not known here.
            *(ConfigError(text, file=document.file, path=".".join(map(str, path))) for path, text in options),
        ]
    )


def _differences(running: BaseModel, other: BaseModel, names: tuple[str, ...]) -> Iterator[tuple[FieldPath, str]]:
    """Yield the innermost fields that are different, each with the error."""
    for name in names:
        before, after = getattr(running, name), getattr(other, name)
        if before == after:
            continue
        if isinstance(before, BaseModel):
            inner = _differences(before, after, tuple(type(before).model_fields))
            yield from (((to_camel(name), *path), text) for path, text in inner)
        else:
            yield (to_camel(name),), f"cannot change while the scheduler runs, from {before} to {after}: {_REMEDY}"


def refuse_other_order(running: Profiles, others: Profiles, configuration: Configuration) -> None:
    """Raise ConfigError if the pods that wait would have to be put into another order."""
    before, after = (next(iter(profiles.values())) for profiles in (running, others))
    (name,) = after.points["queue_sort"]
    if before.running_plugin(type(after.plugins[name]), after.args[name]) is None:
        (known,) = before.points["queue_sort"]
        what = f"from {known} to {name}" if known != name else f"of {name}"
        text = f"the order of a running queue cannot change {what}: {_REMEDY}"
        raise configuration.profiles[0].location.error(Problem(("plugins", "queueSort"), text))
