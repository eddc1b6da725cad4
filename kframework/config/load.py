"""Reading a configuration: documents by kind, decoding, defaults, validation; and what a command line says instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from kframework.config.configuration import Configuration, Profile, RawArgs
from kframework.config.decode import decode
from kframework.config.default_plugins import DEFAULT_PLUGINS
from kframework.config.document import Document, Json, Place, parse_documents, read_source
from kframework.config.expand import merge_plugins
from kframework.config.migration import OLD_API_VERSIONS, migrated
from kframework.config.models import (
    API_VERSION,
    KIND,
    PLACEMENT_POINTS,
    KubeSchedulerConfiguration,
    ProfileBlock,
    Settings,
    camel,
)
from kframework.config.options import OPTIONS_API_VERSION, OPTIONS_KIND, Options
from kframework.config.problems import collecting, raise_all
from kframework.config.validation import profile_problems, settings_problems
from kframework.errors import ConfigError, nearest
from kframework.objects.problem import Problem

#: Fields of old versions that mean nothing today.
OLD_FIELDS = ("healthzBindAddress", "metricsBindAddress")

#: Fields of old versions that stand elsewhere today, and where.
_MOVED_FIELDS = {
    "algorithmSource": "profiles name plugins instead; write: profiles: [{plugins: {...}}]",
    "bindTimeoutSeconds": "write: profiles: [{pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: ...}}]}]",
    "disablePreemption": "if true, write: profiles: [{plugins: {multiPoint: {disabled: [{name: DefaultPreemption}]}}}]",
    "hardPodAffinitySymmetricWeight": (
        "write: profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: ...}}]}]"
    ),
    "plugins": "write: profiles: [{plugins: {...}}]",
    "pluginConfig": "write: profiles: [{pluginConfig: [...]}]",
    "schedulerName": "write: profiles: [{schedulerName: ...}]",
}

#: What v1.23 left behind: predicates and priorities.
_POLICY = "Policy"

#: The kinds of a file's documents and the versions in which each is read, the current one first.
KINDS: Mapping[str, tuple[str, ...]] = {KIND: (API_VERSION, *OLD_API_VERSIONS), OPTIONS_KIND: (OPTIONS_API_VERSION,)}

#: The plugin that leaves resources to extenders.
_FIT = "NodeResourcesFit"

#: Where what is in no file stands.
_NOTHING = Document(None, {}, {}).at()


def load_configuration(source: str | Path | Mapping[str, object]) -> Configuration:
    """Load a configuration from a YAML or JSON file, from standard input when `source` is `-`, or from a mapping.

    Raises ConfigError, or ConfigErrors when several things are wrong.
    """
    if isinstance(source, Mapping):
        return _of_documents([Document(None, cast("Json", source), {})], None)
    file, text = read_source(source)
    return parse(text, file)


def parse(text: str, file: str | None = None) -> Configuration:
    """Load a configuration from a text; `file` is its name for error messages."""
    return _of_documents(parse_documents(text, file), file)


def _of_documents(parsed: Sequence[Document], file: str | None) -> Configuration:
    documents = _by_kind(parsed, file)
    absent = Document(file, {}, {})
    return _configuration(documents.get(KIND, absent).at(), documents.get(OPTIONS_KIND, absent).at())


def default_configuration() -> Configuration:
    """Return the configuration that holds without a file."""
    return _configuration(_NOTHING, _NOTHING)


def overridden(
    configuration: Configuration,
    *,
    leader_election: Mapping[str, object],
    client_connection: Mapping[str, object],
    options: Mapping[str, object],
) -> Configuration:
    """Return the configuration with these fields in place of its own, by name; None leaves a field as it is.

    Raises ConfigError, or ConfigErrors when several things are wrong.
    """
    settings = configuration.settings.model_copy(
        update={
            "leader_election": configuration.settings.leader_election.model_copy(update=_given(leader_election)),
            "client_connection": configuration.settings.client_connection.model_copy(update=_given(client_connection)),
        }
    )
    own = configuration.options.model_copy(update=_given(options))
    problems = [*settings_problems(settings), *own.problems()]
    raise_all([_NOTHING.error(problem) for problem in problems])
    return replace(configuration, settings=settings, options=own)


def _given(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}


# --- documents --------------------------------------------------------------------------------------------------------


def _by_kind(documents: Sequence[Document], file: str | None) -> dict[str, Document]:
    found: dict[str, Document] = {}
    for document in documents:
        kind = _kind(document.at())
        if kind in found:
            raise document.at().error(Problem((), f"is a second {kind}; a file holds one"))
        found[kind] = document
    if not found:
        raise ConfigError(f"is empty; want kind {KIND} ({API_VERSION})", file=file)
    return found


def _kind(document: Place) -> str:
    if not isinstance(document.value, dict):
        raise document.error(Problem((), f"is no {KIND} ({API_VERSION}): expected a mapping with apiVersion and kind"))
    kind, version = document.value.get("kind"), document.value.get("apiVersion")
    if kind == _POLICY:
        message = (
            f"Kubernetes reads scheduling policies no more since v1.23; write a {KIND} ({API_VERSION}) with plugins"
        )
        raise document.error(Problem(("kind",), message))
    if not isinstance(kind, str) or not isinstance(version, str):
        missing = "kind" if not isinstance(kind, str) else "apiVersion"
        raise document.error(Problem((missing,), f"Required value: want kind {KIND} ({API_VERSION})"))
    if kind not in KINDS:
        wanted = " or ".join(f"{known} ({versions[0]})" for known, versions in KINDS.items())
        message = f"couldn't decode as {KIND}, got {kind} ({version}); want {wanted}"
        raise document.error(Problem(("kind",), message, nearest(kind, KINDS)))
    if version not in KINDS[kind]:
        message = f'no kind "{kind}" is registered for version "{version}"; want {KINDS[kind][0]}'
        raise document.error(Problem(("apiVersion",), message))
    return kind


# --- from documents to the configuration ------------------------------------------------------------------------------


def _configuration(scheduler: Place, options: Place) -> Configuration:
    errors: list[ConfigError] = []
    warnings: list[ConfigError] = []
    with collecting(errors):
        written = decode(KubeSchedulerConfiguration, _body(scheduler, warnings, errors), scheduler)
    with collecting(errors):
        own = _options(options)
    raise_all(errors)

    blocks = _named(_migrated(written.profiles, scheduler, warnings, errors))
    profiles = [_profile(block, scheduler / "profiles" / index) for index, block in enumerate(blocks)]
    errors += [scheduler.error(problem) for problem in settings_problems(written)]
    errors += [scheduler.error(problem) for problem in profile_problems(profiles, blocks)]
    raise_all(errors)

    settings = Settings(**{name: getattr(written, name) for name in Settings.model_fields})
    profiles = [_without_managed_resources(profile, settings) for profile in profiles]
    for profile in profiles:
        warnings += _notices(profile)
    return Configuration(settings, tuple(profiles), own, tuple(map(str, warnings)))


def options_of(document: Place) -> Options:
    """Read the options of our own from a document; ConfigError, or ConfigErrors when several things are wrong."""
    _kind(document)
    return _options(document)


def _options(document: Place) -> Options:
    own = decode(Options, _without_header(document), document)
    raise_all([document.error(problem) for problem in own.problems()])
    return own


def _without_header(document: Place) -> dict[str, Json]:
    assert isinstance(document.value, dict)  # _kind has refused everything else
    return {name: value for name, value in document.value.items() if name not in ("apiVersion", "kind")}


def _body(document: Place, warnings: list[ConfigError], errors: list[ConfigError]) -> Json:
    """Return a document without its header, and without what an old version had besides today's fields."""
    assert isinstance(document.value, dict)  # _kind has refused everything else
    dropped = ["apiVersion", "kind"]
    version = document.value.get("apiVersion")
    if version in OLD_API_VERSIONS:
        message = f"{version} is no longer served by kube-scheduler; read as {API_VERSION}"
        warnings.append(document.error(Problem(("apiVersion",), message)))
        old = [name for name in OLD_FIELDS if name in document.value]
        warnings += [document.error(Problem((name,), f"is not in {API_VERSION}: ignored")) for name in old]
        moved = [name for name in _MOVED_FIELDS if name in document.value]
        errors += [document.error(Problem((n,), f"is not in {API_VERSION}; {_MOVED_FIELDS[n]}")) for n in moved]
        dropped += old + moved
    return {name: value for name, value in document.value.items() if name not in dropped}


def _migrated(
    blocks: Sequence[ProfileBlock], document: Place, warnings: list[ConfigError], errors: list[ConfigError]
) -> Sequence[ProfileBlock]:
    """Bring the profiles of an old version to v1; there is always one."""
    version = (document / "apiVersion").value
    if version not in OLD_API_VERSIONS:
        return blocks
    places = [document / "profiles" / index for index in range(len(blocks))] or [document]
    return [
        migrated(block, str(version), place, warnings, errors)
        for block, place in zip(blocks or [ProfileBlock()], places, strict=True)
    ]


def _named(blocks: Sequence[ProfileBlock]) -> Sequence[ProfileBlock]:
    """Fill in the one name that has a default: that of an only profile."""
    only = blocks[0] if blocks else ProfileBlock()
    if len(blocks) > 1 or only.scheduler_name is not None:
        return blocks
    return [only.model_copy(update={"scheduler_name": "default-scheduler"})]


def _profile(block: ProfileBlock, place: Place) -> Profile:
    """Merge the default plugins in; the args stay as they are written."""
    args = {
        entry.name: RawArgs(entry.args or {}, _config_place(place / "pluginConfig", index, entry.name))
        for index, entry in enumerate(block.plugin_config)
    }
    plugins = merge_plugins(DEFAULT_PLUGINS, block.plugins)
    return Profile(block.scheduler_name or "", block.percentage_of_nodes_to_score, plugins, args, place)


def _config_place(config: Place, index: int, name: str) -> Place:
    """Return where the args of a plugin stand: of an old version, entries may have been left out before it."""
    entries = config.value if isinstance(config.value, list) else []
    places = [config / at for at in (index, *range(len(entries)))]
    return next((place / "args" for place in places if (place / "name").value == name), config)


def _without_managed_resources(profile: Profile, settings: Settings) -> Profile:
    """Let NodeResourcesFit ignore what extenders manage with `ignoredByScheduler`."""
    managed = [resource for extender in settings.extenders for resource in extender.managed_resources]
    ignored: list[Json] = [resource.name for resource in managed if resource.ignored_by_scheduler]
    if not ignored:
        return profile
    if _FIT not in profile.args and _FIT not in profile.plugins.enabled_names():
        message = "couldn't build extenders: can't find NodeResourcesFitArgs in plugin config"
        raise profile.place.error(Problem(("pluginConfig",), message))
    written = profile.raw_args(_FIT)
    changed = RawArgs({**written.value, "ignoredResources": ignored}, written.place)
    return replace(profile, args={**profile.args, _FIT: changed})


def _notices(profile: Profile) -> Iterator[ConfigError]:
    """Name what a profile says to no effect."""
    for key in PLACEMENT_POINTS:
        if profile.plugins.key(key).enabled:
            message = "is alpha in kube-scheduler and not used here"
            yield profile.place.error(Problem(("plugins", camel(key)), message))
    enabled = profile.plugins.enabled_names()
    for name in profile.args:
        if name not in enabled:
            message = f"args of {name} have no effect: the profile does not enable it"
            yield profile.place.error(Problem(("pluginConfig",), message, nearest(name, enabled)))
