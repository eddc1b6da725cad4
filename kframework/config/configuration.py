"""A configuration as it takes effect: defaulted, merged and validated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from kframework.config.document import Json, Place
from kframework.config.models import API_VERSION, Plugins, Settings, camel
from kframework.config.options import Options
from kframework.objects.problem import Problem

_GROUP = API_VERSION.partition("/")[0]


@dataclass(frozen=True)
class RawArgs:
    """The args of a plugin as they stand in the file: only the plugin's own Args understand them."""

    value: Mapping[str, Json]
    place: Place = field(compare=False, repr=False)


@dataclass(frozen=True)
class Profile:
    """A profile: `plugins` with the default set merged in, `args` of the plugins that are given any.

    `place` is where the profile stands in the file. `percentage_of_nodes_to_score` None leaves it to the settings.
    """

    scheduler_name: str
    percentage_of_nodes_to_score: int | None
    plugins: Plugins
    args: Mapping[str, RawArgs]
    place: Place = field(compare=False, repr=False)

    def raw_args(self, plugin_name: str) -> RawArgs:
        """Return the args of a plugin as they stand in the file, none if it has none there."""
        return self.args.get(plugin_name) or RawArgs({}, self.place / "pluginConfig" / plugin_name)


@dataclass(frozen=True)
class Configuration:
    """All that a configuration file says.

    `settings` is the KubeSchedulerConfiguration without its profiles, `options` our own document. `warnings` are
    lines for the user, each with its place.
    """

    settings: Settings
    profiles: tuple[Profile, ...]
    options: Options
    warnings: tuple[str, ...] = field(default=(), compare=False)


def named_at(profile: Profile, key: str, verb: Literal["enabled", "disabled"], name: str) -> Iterator[Place]:
    """List where the file names a plugin under a key, `multi_point` or a point; nowhere for one of the default set."""
    entries = profile.place / "plugins" / camel(key) / verb
    for index, entry in enumerate(entries.value if isinstance(entries.value, list) else ()):
        if isinstance(entry, dict) and entry.get("name") == name:
            yield entries / index / "name"


def without_kind(args: Mapping[str, Json], plugin_name: str, place: Place) -> dict[str, Json]:
    """Return args without their `apiVersion` and `kind`, which must be `<plugin>Args` if they are given."""
    wanted = f"{plugin_name}Args"
    kind = args.get("kind", wanted)
    if kind != wanted:
        group = str(args.get("apiVersion", API_VERSION)).rpartition("/")[0]
        message = f"args for plugin {plugin_name} were not of type {wanted}.{_GROUP}, got {kind}.{group}"
        raise place.error(Problem(("kind",), message))
    return {name: value for name, value in args.items() if name not in ("apiVersion", "kind")}
