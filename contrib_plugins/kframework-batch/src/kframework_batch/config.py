"""Reading a scheduler configuration as Volcano has it: actions, tiers of plugins with their flags, arguments.

Unknown fields cause a warning. `kframework_batch.program` checks names and arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from kframework import ConfigError
from kframework.engine import (
    OPTIONS_KIND,
    Document,
    Json,
    Options,
    Problem,
    RawArgs,
    YamlLocation,
    collect_errors,
    nearest_name,
    options_of,
    parse_configuration_documents,
    raise_collected,
    read_source,
    required,
    short_repr,
)
from kframework_batch.tiers import FLAGS, HIERARCHY, UNSUPPORTED_FLAGS

#: The key under which a ConfigMap holds the configuration.
CONFIG_MAP_KEY = "volcano-scheduler.conf"

_DEFAULT = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""

_FIELDS = ("actions", "tiers", "configurations", "metrics")
_FLAGS = frozenset({*FLAGS, *UNSUPPORTED_FLAGS, HIERARCHY})
_BOOLEANS = {"y": True, "yes": True, "true": True, "on": True, "n": False, "no": False, "false": False, "off": False}


@dataclass(frozen=True)
class TierPlugin:
    """One mention of a plugin: the flags and arguments that are written, and where."""

    name: str
    flags: Mapping[str, bool]
    arguments: RawArgs
    location: YamlLocation = field(compare=False, repr=False)


@dataclass(frozen=True)
class BatchConfiguration:
    """The content of a configuration file; `warnings` are lines for the user, each with its place."""

    actions: tuple[str, ...]
    tiers: tuple[tuple[TierPlugin, ...], ...]
    #: By the name of the action.
    action_arguments: Mapping[str, RawArgs]
    location: YamlLocation = field(compare=False, repr=False)
    #: What a document beside it says that Volcano has no word for.
    options: Options = field(default_factory=Options)
    warnings: tuple[str, ...] = field(default=(), compare=False)
    #: What it was read from.
    text: str = field(default="", compare=False, repr=False)


def load(source: str | Path) -> BatchConfiguration:
    """Load a configuration from a file, or from standard input when `source` is `-`; a ConfigMap may hold it.

    Raises ConfigError, or ConfigErrors when several things are wrong.
    """
    name, text = read_source(source)
    return parse(text, name)


def parse(text: str, name: str = "<config>") -> BatchConfiguration:
    """Load a configuration from a text; `name` is what error messages call the file."""
    documents = parse_configuration_documents(text, name, CONFIG_MAP_KEY)
    if not documents:
        raise ConfigError('is empty; want actions ("enqueue, allocate, backfill") and tiers of plugins', file=name)
    return replace(_ConfigurationReader().configuration(documents), text=text)


def default_configuration() -> BatchConfiguration:
    return parse(_DEFAULT, "<default>")


class _ConfigurationReader:
    """Goes through the documents once and collects errors and warnings."""

    def __init__(self) -> None:
        self._errors: list[ConfigError] = []
        self._warnings: list[ConfigError] = []

    def configuration(self, documents: Sequence[Document]) -> BatchConfiguration:
        root = documents[0].at()
        kind = root / "kind"
        if kind.value is not None:
            wanted = "want actions and tiers of plugins, or a ConfigMap with them"
            raise kind.error(
                Problem((), f"{short_repr(kind.value)} is no configuration of a batch scheduler; {wanted}")
            )
        self._fields(root, _FIELDS)
        read = BatchConfiguration(
            actions=self._actions(root / "actions"),
            tiers=tuple(self._tier(tier) for tier in self._items(root / "tiers")),
            action_arguments=self._action_arguments(root / "configurations"),
            location=root,
        )
        self._refuse_conflicts(read.tiers)
        if self._fields(root / "metrics"):
            self._warn(root / "metrics", "is for Volcano's plugin usage, which is not supported: ignored")
        options = self._options([document.at() for document in documents[1:]])
        raise_collected(self._errors)
        return replace(read, options=options, warnings=tuple(str(warning) for warning in self._warnings))

    def _options(self, further: Sequence[YamlLocation]) -> Options:
        """Read the first of the further documents that is one of options; none of the others counts."""
        kinds = [(location / "kind").value for location in further]
        chosen = kinds.index(OPTIONS_KIND) if OPTIONS_KIND in kinds else None
        for number, location in enumerate(further):
            if number != chosen:
                self._warn(location, "a file holds one configuration: ignoring this document")
        with collect_errors(self._errors):
            return Options() if chosen is None else options_of(further[chosen])
        return Options()

    def _actions(self, location: YamlLocation) -> tuple[str, ...]:
        text = self._text(location)
        names = tuple(name.strip() for name in text.split(","))
        if text and "" in names:
            self._add_error(location, f"{short_repr(text)} lacks a name before or after a comma")
        return names

    def _tier(self, location: YamlLocation) -> tuple[TierPlugin, ...]:
        self._fields(location, ("plugins",))
        found = []
        for entry in self._items(location / "plugins"):
            written = self._fields(entry, ("name", "arguments", *sorted(_FLAGS)))
            flags = {name: self._flag(entry / name) for name in written if name in _FLAGS}
            name, arguments = self._text(entry / "name"), entry / "arguments"
            found.append(TierPlugin(name, flags, RawArgs(self._fields(arguments), arguments), entry))
        return tuple(found)

    def _action_arguments(self, location: YamlLocation) -> dict[str, RawArgs]:
        found: dict[str, RawArgs] = {}
        for entry in self._items(location):
            self._fields(entry, ("name", "arguments"))
            name, arguments = self._text(entry / "name"), entry / "arguments"
            read = RawArgs(self._fields(arguments), arguments)
            if name in found:
                self._warn(entry / "name", f"{name} has arguments already: ignoring these")
            found.setdefault(name, read)
        return found

    def _fields(self, location: YamlLocation, known: Sequence[str] = ()) -> dict[str, Json]:
        """Return the fields of a mapping that are not null; warn of others than the known ones, if those are given."""
        value = location.value if location.value is not None else {}
        if not isinstance(value, dict):
            self._add_error(location, f"expected a mapping, got {short_repr(value)}")
            return {}
        for name in value:
            if known and name not in known:
                self._warn(location / name, f'unknown field "{name}" is ignored', nearest_name(name, known))
        return {name: field for name, field in value.items() if field is not None}

    def _items(self, location: YamlLocation) -> list[YamlLocation]:
        value = location.value if location.value is not None else []
        if not isinstance(value, list):
            self._add_error(location, f"expected a list, got {short_repr(value)}")
            return []
        return [location / index for index in range(len(value))]

    def _text(self, location: YamlLocation) -> str:
        value = location.value
        if isinstance(value, str) and value:
            return value
        if value is None or value == "":
            self._errors.append(location.error(required(())))
        else:
            self._add_error(location, f"expected a string, got {short_repr(value)}")
        return ""

    def _flag(self, location: YamlLocation) -> bool:
        value = location.value
        read = _BOOLEANS.get(value.lower()) if isinstance(value, str) else value
        if isinstance(read, bool):
            return read
        self._add_error(location, f"expected true or false, got {short_repr(value)}")
        return True

    def _refuse_conflicts(self, tiers: Sequence[Sequence[TierPlugin]]) -> None:
        for tier in tiers:
            trees = [entry for entry in tier if entry.name == "drf" and entry.flags.get(HIERARCHY)]
            if trees and any(entry.name == "proportion" for entry in tier):
                why = "drf with a hierarchy and proportion both compute the shares of queues: keep one of them"
                self._add_error(trees[0].location / HIERARCHY, why)
        entries = {entry.name: entry for entry in chain(*tiers)}
        if {"proportion", "capacity"} <= entries.keys():
            why = "proportion computes the shares of queues, capacity reads them from their specs: remove one"
            self._add_error(entries["capacity"].location / "name", why)

    def _add_error(self, location: YamlLocation, message: str) -> None:
        self._errors.append(location.error(Problem((), message)))

    def _warn(self, location: YamlLocation, message: str, meant: str | None = None) -> None:
        self._warnings.append(location.error(Problem((), message, meant)))
