"""The cluster files that several commands read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kframework.cli.logs import say
from kframework.errors import InputError

if TYPE_CHECKING:
    from kframework.config.configuration import Configuration
    from kframework.framework.plugin import Plugin
    from kframework.objects.manifest import Manifest

#: Of so many unknown fields each has a line.
_LINES = 10


def read_cluster(
    filenames: Sequence[str],
    configuration: Configuration | None = None,
    plugins: Sequence[type[Plugin]] = (),
    *,
    devices: str | None = None,
    strict: bool = False,
) -> Manifest:
    """Read the objects of cluster files and say what is passed over, and which fields their kinds do not have.

    They may be of all kinds that are installed, or that the plugins of a configuration declare. The nodes have the
    `devices` that a file describes, too. What is `strict` raises the unknown fields, an InputError each in one group.
    """
    from kframework.core.runtime.installed_kinds import declare_installed_kinds
    from kframework.objects.manifest import read

    if configuration is not None:
        from kframework.core.runtime.profiles import load_plugins
        from kframework.core.runtime.registry import Registry

        load_plugins(configuration, Registry.of(*plugins))
    for problem in declare_installed_kinds():
        say("warning", str(problem))
    manifest = read(filenames)
    if unknown := _unknown_fields(manifest):
        if strict:
            raise ExceptionGroup("unknown fields", unknown)
        for field in unknown:
            say("warning", str(field))
    if manifest.passed_over:
        names = ", ".join(f"{kind.count} {kind.kind} ({kind.api_version})" for kind in manifest.passed_over)
        say("notice", f"passed over, as no scheduler reads them: {names}")
    if any(kind.kind == "KubeSchedulerConfiguration" for kind in manifest.passed_over):
        say("notice", "a KubeSchedulerConfiguration is given with --config")
    return manifest if devices is None else _with_devices(manifest, devices)


def _with_devices(manifest: Manifest, devices: str) -> Manifest:
    """Add the devices that a file describes, and say which patterns fit no node."""
    from kframework.cluster.device_patterns import read
    from kframework.cluster.synthetic_devices import made

    objects, doubts = made(read(devices), manifest.objects)
    for doubt in doubts:
        say("warning", str(doubt))
    return replace(manifest, objects=[*manifest.objects, *objects])


def _unknown_fields(manifest: Manifest) -> list[InputError]:
    """List the fields that their kinds do not have: the first ones each by itself, the others by their number."""
    from kframework.cluster.field_names import unknown_fields
    from kframework.objects.kinds import kind_of, reference

    found: list[InputError] = []
    others = 0
    for subject, written, place in zip(manifest.objects, manifest.written, manifest.places, strict=True):
        kind = kind_of(subject)
        for field in unknown_fields(written, kind.api_version, kind.name):
            if len(found) == _LINES:
                others += 1
                continue
            message = str(field) + (f'; did you mean "{field.nearest}"?' if field.nearest else "")
            line = place.line(field.path)
            found.append(InputError(message, file=place.source.name, line=line, subject=reference(subject)))
    return [*found, InputError(f"and {others} more unknown fields")] if others else found
