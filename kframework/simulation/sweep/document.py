"""The file of a sweep: configurations, clusters and seeds, and the runs that they combine to."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Annotated

from annotated_types import MinLen
from pydantic import Field, JsonValue

from kframework._version import __version__
from kframework.config.configuration import Configuration
from kframework.config.decode import ApiModel, Bool, Int64, decode
from kframework.config.document import (
    Document,
    Json,
    YamlLocation,
    parse_configuration_documents,
    parse_documents,
    read_source,
)
from kframework.config.duration import Duration
from kframework.config.load import CONFIG_MAP_KEY, configuration_from_documents, with_overrides
from kframework.config.models import API_VERSION as SCHEDULER_API_VERSION
from kframework.config.models import KIND as SCHEDULER_KIND
from kframework.core.runtime.registry import GROUP, installed_offers
from kframework.errors import ConfigError, collect_errors, raise_collected
from kframework.objects.problem import FieldPath, Problem, duplicate, invalid, required
from kframework.simulation.sweep.runs import SweepRun, digest_files
from kframework.values.feature_gates import FeatureGates

API_VERSION, KIND = "kframework.dev/v1", "Sweep"

_PATH = re.compile(r"(\.?[^.\[\]]+|\[[^\[\]]+\])+")
_STEP = re.compile(r"[^.\[\]]+")


class Axis(ApiModel):
    """A value of the base configuration that a grid varies; `path` is spelled as in error messages."""

    path: str
    values: Annotated[tuple[JsonValue, ...], MinLen(1)]


class Grid(ApiModel):
    """A configuration for each combination of the values of all axes, by default on the default profile."""

    base: str | None = None
    axes: dict[str, Axis]


class SweepDocument(ApiModel):
    """The content of a file; paths are relative to its folder."""

    configurations: dict[str, str | None] = Field(default_factory=dict)
    grid: Grid | None = None
    clusters: Annotated[dict[str, Annotated[tuple[str, ...], MinLen(1)]], MinLen(1)]
    seeds: Annotated[tuple[Int64, ...], MinLen(1)] = (0,)
    duration: Duration | None = None
    feature_gates: dict[str, Bool] = Field(default_factory=dict)

    def problems(self) -> Iterator[Problem]:
        """Yield what the types of the fields do not exclude."""
        if not self.configurations and self.grid is None:
            yield required(("configurations",), "name a configuration, or write a grid")
        for axis, value in () if self.grid is None else self.grid.axes.items():
            if not _PATH.fullmatch(value.path):
                detail = "write it like profiles[0].plugins.multiPoint.enabled[0].weight"
                yield invalid(("grid", "axes", axis, "path"), value.path, detail)
        for index, seed in enumerate(self.seeds):
            if seed in self.seeds[:index]:
                yield duplicate(("seeds", index), seed)
        if self.duration is not None and self.duration <= 0:
            yield invalid(("duration",), str(self.duration), "must be greater than zero")


class Sweep:
    """The runs of a sweep, in the order of its file: by configuration, cluster and seed."""

    def __init__(self, source: str) -> None:
        """Read a file, and all that it names; raises ConfigError, or ConfigErrors for several errors."""
        self._location = _read_document(source)
        self._folder = Path(source).parent
        self._content = decode(SweepDocument, _without_type(self._location.value), self._location)
        raise_collected([self._location.error(problem) for problem in self._content.problems()])
        errors: list[ConfigError] = []
        self.configurations: dict[str, Configuration] = {}
        self._inputs: dict[str, str] = {}
        for name, location, documents in self._documents(errors):
            with collect_errors(errors):
                self._add_configuration(name, location, documents)
        self.clusters: dict[str, tuple[str, ...]] = {}
        self._digests: dict[str, str] = {}
        for name, files in self._content.clusters.items():
            self.clusters[name] = tuple(str((self._folder / file).absolute()) for file in files)
            with collect_errors(errors):
                self._digests[name] = self._digest(name)
        raise_collected([*{str(error): error for error in errors}.values()])

    @property
    def runs(self) -> Sequence[SweepRun]:
        """A run for each configuration, cluster and seed."""
        duration = self._content.duration
        return [
            SweepRun(
                key=_hash(self._inputs[configuration], self._digests[cluster], seed, duration),
                configuration=configuration,
                cluster=cluster,
                seed=seed,
                settings=self.configurations[configuration],
                files=self.clusters[cluster],
                digest=self._digests[cluster],
                duration=None if duration is None else float(duration),
            )
            for configuration, cluster, seed in product(self.configurations, self.clusters, self._content.seeds)
        ]

    def _documents(self, errors: list[ConfigError]) -> Iterator[tuple[str, YamlLocation, Sequence[Document]]]:
        """Yield the documents of each configuration, with its name and its location in the sweep."""
        for name, file in self._content.configurations.items():
            with collect_errors(errors):
                yield name, self._location / "configurations" / name, self._read_configuration(file)
        if self._content.grid is not None:
            with collect_errors(errors):
                yield from self._grid_documents(self._content.grid, self._location / "grid")

    def _grid_documents(
        self, grid: Grid, location: YamlLocation
    ) -> Iterator[tuple[str, YamlLocation, Sequence[Document]]]:
        base = self._read_configuration(grid.base)
        for values in product(*(axis.values for axis in grid.axes.values())):
            point = ",".join(f"{axis}={_format_value(value)}" for axis, value in zip(grid.axes, values, strict=True))
            documents = [replace(each, file=f"{grid.base or 'the default profile'} with {point}") for each in base]
            for (name, axis), value in zip(grid.axes.items(), values, strict=True):
                try:
                    documents = [_with_value(each, _parse_path(axis.path), value) for each in documents]
                except LookupError as error:
                    message = f"{axis.path} cannot be set: {error.args[0]} in the base configuration"
                    raise (location / "axes" / name / "path").error(Problem((), message)) from error
            yield point, location, documents

    def _read_configuration(self, file: str | None) -> Sequence[Document]:
        if file is None:
            return [Document(None, {"apiVersion": SCHEDULER_API_VERSION, "kind": SCHEDULER_KIND}, {})]
        name, text = read_source(self._folder / file)
        return parse_configuration_documents(text, name, CONFIG_MAP_KEY)

    def _add_configuration(self, name: str, location: YamlLocation, documents: Sequence[Document]) -> None:
        if name in self.configurations:
            raise location.error(Problem((), f"two configurations are called {name!r}"))
        configuration = configuration_from_documents(documents, documents[0].file if documents else None)
        gates = {**configuration.options.feature_gates, **self._content.feature_gates}
        problems = FeatureGates(configuration.options.emulated_version, gates).problems()
        raise_collected([(self._location / "featureGates").error(problem) for problem in problems])
        configuration = with_overrides(
            configuration, leader_election={}, client_connection={}, options={"feature_gates": gates}
        )
        enabled = {plugin for profile in configuration.profiles for plugin in profile.plugins.enabled_names()}
        offers = {each.distribution for each in installed_offers(GROUP) if each.name in enabled}
        self.configurations[name] = configuration
        self._inputs[name] = _hash(__version__, sorted(offers), [each.data for each in documents], gates)

    def _digest(self, cluster: str) -> str:
        try:
            return digest_files(self.clusters[cluster])
        except OSError as error:
            problem = Problem(("clusters", cluster), f"{error.filename} cannot be read: {error.strerror}")
            raise self._location.error(problem) from error


def _read_document(source: str) -> YamlLocation:
    file, text = read_source(source)
    documents = parse_documents(text, file)
    if len(documents) != 1:
        raise ConfigError(f"expected one document of kind {KIND} ({API_VERSION}), got {len(documents)}", file=file)
    location = documents[0].at()
    found = tuple((location / name).value for name in ("kind", "apiVersion"))
    if found != (KIND, API_VERSION):
        message = f"expected kind {KIND} ({API_VERSION}), got {found[0]} ({found[1]})"
        raise location.error(Problem(("kind",), message))
    return location


def _without_type(data: Json) -> dict[str, Json]:
    assert isinstance(data, dict)  # it has a kind
    return {name: value for name, value in data.items() if name not in ("apiVersion", "kind")}


def _parse_path(text: str) -> FieldPath:
    return tuple(int(step) if step.isdecimal() else step for step in _STEP.findall(text))


def _with_value(document: Document, path: FieldPath, value: Json) -> Document:
    """Set a value in a KubeSchedulerConfiguration; LookupError if a list is too short, or a value has no fields."""
    if isinstance(document.data, dict) and document.data.get("kind") == SCHEDULER_KIND:
        return replace(document, data=_set_value(document.data, path, value))
    return document


def _set_value(data: Json, path: FieldPath, value: Json) -> Json:
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        if not isinstance(data, list) or step >= len(data):
            raise LookupError(f"there is no element [{step}]")
        return [*data[:step], _set_value(data[step], rest, value), *data[step + 1 :]]
    if not isinstance(data, dict | None):
        raise LookupError(f"{step} is no field of a value there")
    return {**(data or {}), step: _set_value((data or {}).get(step), rest, value)}


def _format_value(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _hash(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
