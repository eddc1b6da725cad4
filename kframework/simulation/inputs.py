"""Read inputs before scheduling and report their problems: cluster files and configurations."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from kframework.errors import ConfigError, InputError, InputErrors, format_import_error, nearest_name
from kframework.observe.text_table import format_count
from kframework.values.feature_gates import DEFAULT_GATES, FeatureGates
from kframework.verbosity import notify_user

if TYPE_CHECKING:
    from kframework.config.configuration import Configuration
    from kframework.core.runtime.programmatic import ConfigurationSource
    from kframework.framework.plugin import Plugin
    from kframework.objects import ApiObject
    from kframework.objects.kinds import Kind
    from kframework.objects.manifest import FaultyObject, Manifest, SkippedKind

#: The cluster to schedule: a cluster file, or objects.
ClusterSource: TypeAlias = "str | Path | Iterable[ApiObject]"

#: The entry-point group in which distributions name modules that declare kinds when they are imported.
KINDS_GROUP = "kframework.kinds"
_COMMANDS_GROUP = "kframework.commands"

#: The maximum number of unknown fields with a line each.
_MAX_LINES = 10

#: The maximum number of errors that only `strict` finds: finding the line of each reads the file again.
_MAX_STRICT_ERRORS = 20


def load_simulation_configuration(
    source: ConfigurationSource | None, plugins: Sequence[type[Plugin]] = (), seed: int | None = None
) -> Configuration:
    """Load a configuration, by default with these plugins, and print its warnings; `seed` replaces its own."""
    from kframework.config.configuration import Configuration
    from kframework.core.runtime.programmatic import configuration_with_plugins

    if isinstance(source, Configuration):
        configuration = source  # its warnings were printed when it was read
    else:
        configuration = configuration_with_plugins(source, plugins)
        for warning in configuration.warnings:
            notify_user("warning", warning)
    if seed is None:
        return configuration
    return replace(configuration, options=configuration.options.model_copy(update={"seed": seed}))


def load(*filenames: str | Path, devices: str | Path | None = None, strict: bool = False) -> list[ApiObject]:
    """Read the objects of cluster files, with the devices that a file describes for their nodes.

    Skipped kinds and fields that a kind does not have are reported; `strict` makes the latter errors. Raises InputError
    for a file that cannot be read.
    """
    text = None if devices is None else str(devices)
    manifest = read_cluster([str(each) for each in filenames], devices=text, strict=strict)
    report_groups(manifest, DEFAULT_GATES)
    return manifest.objects


def read_cluster(
    filenames: Sequence[str],
    configuration: Configuration | None = None,
    plugins: Sequence[type[Plugin]] = (),
    *,
    devices: str | None = None,
    strict: bool = False,
) -> Manifest:
    """Read the objects of cluster files and report skipped kinds, and fields that their kinds do not have.

    They may be of all kinds that are installed, or that the plugins of a configuration declare. The nodes have the
    `devices` that a file describes, too. With `strict`, unknown fields and what `find_strict_errors` finds
    are raised together. Raises InputError for objects that are faulty, or that admission rejects.
    """
    from kframework.objects.manifest import create_errors

    manifest, rejected = read_admitted(filenames, configuration, plugins, devices=devices, strict=strict)
    if rejected:
        raise InputErrors(create_errors(rejected))
    return manifest


def read_admitted(
    filenames: Sequence[str],
    configuration: Configuration | None = None,
    plugins: Sequence[type[Plugin]] = (),
    *,
    devices: str | None = None,
    strict: bool = False,
) -> tuple[Manifest, list[FaultyObject]]:
    """Read files as `read_cluster` does, but return the objects that admission rejects apart, unless `strict`."""
    from kframework.objects.manifest import create_errors, read
    from kframework.scheduler.gc_policy import gc_paused

    if configuration is not None:
        from kframework.core.runtime.profiles import load_plugins
        from kframework.core.runtime.registry import Registry

        load_plugins(configuration.with_all_profiles, Registry.with_plugins(*plugins))
    for problem in declare_installed_kinds():
        notify_user("warning", str(problem))
    with gc_paused():
        manifest = read(filenames)
        unknown = _unknown_fields(manifest)
        if strict:
            from kframework.simulation.strict import find_strict_errors

            errors = find_strict_errors(manifest)
            unknown += islice(errors, _MAX_STRICT_ERRORS)
            if next(errors, None) is not None:
                unknown.append(InputError("and more"))
    if filenames and not (manifest.objects or manifest.skipped):
        notify_user("warning", f"no objects in {', '.join(filenames)}")
    manifest, rejected = _split_by_admission(manifest)
    if strict and (unknown or rejected):
        raise InputErrors([*unknown, *create_errors(rejected)])
    for field in unknown:
        notify_user("warning", str(field))
    for notice in _skip_notices(manifest.skipped):
        notify_user("notice", notice)
    return manifest if devices is None else _with_devices(manifest, devices), rejected


def report_rejected(rejected: Sequence[FaultyObject]) -> None:
    """Print an error for each object that admission rejects, where the others are scheduled without it."""
    from kframework.objects.manifest import create_errors

    for error in create_errors(rejected):
        notify_user("error", str(error))


#: What to do with files that are not for a cluster, by group and kind.
_OTHER_FILES = {
    ("kubescheduler.config.k8s.io", "KubeSchedulerConfiguration"): "pass a KubeSchedulerConfiguration with --config",
    ("", "Config"): "a kubeconfig names a cluster and has no objects: pass it to kframework run with --kubeconfig",
}

#: The group of Kubernetes' pod groups, and its kinds.
_SCHEDULING, _GROUP_KINDS = "scheduling.k8s.io", ("PodGroup", "CompositePodGroup", "Workload")


def report_ignored(manifest: Manifest, configuration: Configuration, plugins: Sequence[type[Plugin]] = ()) -> None:
    """Report once what a configuration ignores: kinds that no enabled plugin watches, and groups without their gate."""
    for notice in _unwatched_notices(manifest.objects, configuration, plugins):
        notify_user("notice", notice)
    report_groups(manifest, configuration.options.gates)


def _unwatched_notices(
    objects: Iterable[ApiObject], configuration: Configuration, plugins: Sequence[type[Plugin]]
) -> Iterator[str]:
    """Yield which declared kinds no enabled plugin watches, and which plugins or commands read them."""
    from kframework.core.runtime.registry import Registry
    from kframework.objects.kinds import KINDS, kind_of

    counts = Counter(map(type, objects))
    kinds: list[Kind[ApiObject]] = [kind_of(struct) for struct in counts]
    declared = [kind for kind in kinds if kind not in KINDS]
    if not configuration.options.gates.has_pod_groups:  # `report_groups` reports them
        declared = [kind for kind in declared if not _is_group(kind.api_version, kind.name)]
    if not declared:
        return
    registry = Registry.with_plugins(*plugins)
    registry.load_all()
    enabled = {name for each in configuration.with_all_profiles.profiles for name in each.plugins.enabled_names()}
    unread = defaultdict[str, list[str]](list)
    for kind in declared:
        readers = [name for name in registry if registry.watches(name, kind.struct)]
        if enabled.isdisjoint(readers):
            unread[_remedy(kind, readers)].append(f"{counts[kind.struct]} {kind.name} ({kind.api_version})")
    for remedy, texts in unread.items():
        yield f"ignored, as no enabled plugin reads them: {', '.join(texts)}{remedy}"


def _remedy(kind: Kind[ApiObject], readers: Sequence[str]) -> str:
    from kframework.core.runtime.registry import installed_offers

    if readers:
        return f"; enable {' or '.join(readers)}"
    if current := _current_version(kind.api_version, kind.name):
        return f"; change the apiVersion to {current}"
    package = kind.struct.__module__.partition(".")[0]
    commands = [each.name for each in installed_offers(_COMMANDS_GROUP) if each.target.startswith(f"{package}.")]
    return f"; kframework {commands[0]} schedules them" if commands else ""


def report_groups(manifest: Manifest, gates: FeatureGates) -> None:
    """Report once what is ignored because a gate is off: all groups that files have, or fields of these."""
    if gates.has_pod_groups:
        for notice in _field_notices(manifest.objects, gates):
            notify_user("notice", notice)
        return
    from kframework.objects import Pod
    from kframework.objects.kinds import kind_of

    kinds = map(kind_of, manifest.objects)
    groups = Counter(each.name for each in kinds if _is_group(each.api_version, each.name))
    pods = sum(isinstance(each, Pod) and each.spec.scheduling_group is not None for each in manifest.objects)
    counts = [f"{count} {kind}" for kind, count in groups.items()]
    counts += [f"spec.schedulingGroup of {format_count(pods, 'pod')}"] if pods else []
    if counts:
        reason = f"ignored without the feature gate GenericWorkload of Kubernetes 1.37: {', '.join(counts)}"
        notify_user("notice", f"{reason}; the pods of groups are scheduled one by one")


def _field_notices(objects: Iterable[ApiObject], gates: FeatureGates) -> Iterator[str]:
    from kframework.objects import PodGroup

    specs = [each.spec for each in objects if isinstance(each, PodGroup)]
    claims = sum(bool(each.resource_claims) for each in specs)
    constraints = sum(each.scheduling_constraints is not None for each in specs)
    parents = sum(bool(each.parent_composite_pod_group_name) for each in specs)
    for gate, is_on, field, count in (
        ("DRAWorkloadResourceClaims", gates.has_group_claims, "resourceClaims", claims),
        ("TopologyAwareWorkloadScheduling", gates.has_placements, "schedulingConstraints", constraints),
        ("CompositePodGroup", gates.has_group_trees, "parentCompositePodGroupName", parents),
    ):
        if count and not is_on:
            yield f"ignored without the feature gate {gate}: spec.{field} of {format_count(count, 'PodGroup')}"


def _is_group(api_version: str, kind: str) -> bool:
    return api_version.rpartition("/")[0] == _SCHEDULING and kind in _GROUP_KINDS


def _skip_notices(skipped: Iterable[SkippedKind]) -> Iterator[str]:
    """Yield why kinds are skipped, and what to do."""
    from kframework.objects.openapi.definitions import definition_of, kinds_of_group

    unread = list[str]()
    for each in skipped:
        group = each.api_version.rpartition("/")[0]
        text = f"{each.count} {each.kind} ({each.api_version})"
        current = _current_version(each.api_version, each.kind)
        if (group, each.kind) in _OTHER_FILES:
            yield _OTHER_FILES[group, each.kind]
        elif current:
            yield f"ignored, as another version than {current}: {text}; change its apiVersion"
        else:
            nearest = nearest_name(each.kind, kinds_of_group(group) - {each.kind})
            if nearest is not None and definition_of(each.api_version, each.kind) is None:
                text = f"{each.count} {each.kind} ({each.api_version}; did you mean {nearest}?)"
            unread.append(text)
    if unread:
        yield f"ignored, as this scheduler does not read them: {', '.join(unread)}"


def _current_version(api_version: str, name: str) -> str:
    """Return the built-in version of a kind that the files have in another version; "" if it is not built in."""
    from kframework.objects.kinds import KINDS

    group = api_version.rpartition("/")[0]
    versions = [each.api_version for each in KINDS if each.name == name]
    return next((each for each in versions if group in ("extensions", each.rpartition("/")[0])), "")


def _split_by_admission(manifest: Manifest) -> tuple[Manifest, list[FaultyObject]]:
    """Separate the objects that admission rejects, such as pods of an unknown class."""
    from kframework.in_memory.file_admission import find_rejections
    from kframework.objects.kinds import reference
    from kframework.objects.manifest import FaultyObject
    from kframework.objects.problem import Problem

    rejected = dict[int, FaultyObject]()
    for index, path, error in find_rejections(manifest.objects):
        location = manifest.locations[index]
        if len(path) == len(error.path):  # the error names the object
            location, subject, path = location._replace(path=(*location.path, *path)), "", ()
        else:
            subject = reference(manifest.objects[index])
        rejected[index] = FaultyObject(location, subject, Problem(path, str(error)))
    admitted = [index for index in range(len(manifest.objects)) if index not in rejected]
    manifest = replace(
        manifest,
        objects=[manifest.objects[index] for index in admitted],
        documents=[manifest.documents[index] for index in admitted],
        locations=[manifest.locations[index] for index in admitted],
    )
    return manifest, [rejected[index] for index in sorted(rejected)]


def declare_installed_kinds() -> list[ConfigError]:
    """Import the modules that declare kinds; return the errors, which do not affect other modules.

    This declares the kinds of plugins that no configuration names, and of distributions without a plugin.
    """
    from importlib.metadata import entry_points

    problems = []
    for entry_point in sorted(entry_points(group=KINDS_GROUP), key=lambda each: (each.name, each.value)):
        try:
            entry_point.load()
        except Exception as error:
            distribution = entry_point.dist
            source = f" (from {distribution.name} {distribution.version})" if distribution is not None else ""
            why = f"cannot be loaded: {format_import_error(error)}"
            problems.append(ConfigError(f"the kinds of {entry_point.value!r}{source} {why}"))
    return problems


def _with_devices(manifest: Manifest, devices: str) -> Manifest:
    """Add the devices that a file describes, and report patterns that match no node."""
    from kframework.simulation.device_patterns import read
    from kframework.simulation.synthetic_devices import create_devices

    objects, warnings = create_devices(read(devices), manifest.objects)
    for doubt in warnings:
        notify_user("warning", str(doubt))
    return replace(manifest, objects=[*manifest.objects, *objects])


def _unknown_fields(manifest: Manifest) -> list[InputError]:
    """List the fields that their kinds do not have: the first ones each by itself, the others by their number."""
    from kframework.objects.kinds import kind_of, reference
    from kframework.objects.manifest import PARTS
    from kframework.objects.openapi.unknown_fields import unknown_fields
    from kframework.objects.problem import format_path

    errors: list[InputError] = []
    others = 0
    known: set[tuple[object, ...]] = set()  # parts without unknown fields, which objects of a kind share
    for subject, written, location in zip(manifest.objects, manifest.documents, manifest.locations, strict=True):
        kind = kind_of(subject)
        parts = (kind.struct, *(id(written.get(name)) for name in PARTS))
        own = {name: part for name, part in written.items() if name not in PARTS} if parts in known else written
        fields = unknown_fields(own, kind.api_version, kind.name)
        if not fields:
            known.add(parts)
        for field in fields:
            if len(errors) == _MAX_LINES:
                others += 1
                continue
            hint = f'; did you mean "{field.nearest}"?' if field.nearest else ""
            message = f'unknown field "{format_path(field.path)}"{hint}'
            line = location.line(field.path)
            errors.append(InputError(message, file=location.source.name, line=line, subject=reference(subject)))
    return [*errors, InputError(f"and {format_count(others, 'more unknown field')}")] if others else errors
