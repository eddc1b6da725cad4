"""Problems of cluster files that only `--strict` refuses: a scheduler can do without what is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from kframework.errors import ClusterError, InputError, nearest_name
from kframework.in_memory.schema.causes import Cause
from kframework.in_memory.schema.decoding import decoding_problem
from kframework.in_memory.schema.defaults import with_defaults
from kframework.in_memory.schema.validation.kinds import object_causes
from kframework.in_memory.schema.validation.pods import metadata_causes
from kframework.in_memory.store import Data, check_name
from kframework.objects import ApiObject
from kframework.objects.codec import without_nulls
from kframework.objects.kinds import Kind, kind_of, reference
from kframework.objects.manifest import PARTS, Manifest, ObjectLocation, SkippedKind, find_duplicate_keys
from kframework.objects.openapi.definitions import definition_of, kinds_of_group
from kframework.objects.plain_data import mapping
from kframework.objects.problem import FieldPath

_STEP = re.compile(r"\[([^\]]*)\]|([^.\[]+)")


def find_strict_errors(manifest: Manifest) -> Iterator[InputError]:
    """Yield duplicate keys, unknown kinds of Kubernetes' groups, and what an API server refuses."""
    firsts = (skipped.first for skipped in manifest.skipped if skipped.first is not None)
    for source in dict.fromkeys(location.source for location in (*manifest.locations, *firsts)):
        for line, key in find_duplicate_keys(source.text):
            yield InputError(f'duplicate key "{key}"', file=source.name, line=line)
    yield from find_unknown_kinds(manifest.skipped)
    valid: set[tuple[object, ...]] = set()  # parts without problems, which objects of a kind share
    for subject, written, location in zip(manifest.objects, manifest.documents, manifest.locations, strict=True):
        parts = (type(subject), *(id(written.get(name)) for name in PARTS))
        yield from _name_errors(subject, location)
        kind = kind_of(subject)
        if parts in valid:
            causes = [*metadata_causes(mapping(written, "metadata"), kind.name)]
        else:
            causes = _causes(written, kind)
            valid |= set() if causes else {parts}
        for cause in causes:
            yield InputError(
                cause.message,
                file=location.source.name,
                line=location.line(_parse_path(cause.field)),
                subject=reference(subject),
                path=cause.field,
            )


def find_unknown_kinds(skipped: Iterable[SkippedKind]) -> Iterator[InputError]:
    """Yield the kinds that Kubernetes' groups do not have, each with the line of its first object."""
    for each in skipped:
        known = kinds_of_group(each.api_version.rpartition("/")[0])
        if known and each.first is not None and definition_of(each.api_version, each.kind) is None:
            yield InputError(
                f"{each.api_version} has no kind {each.kind}",
                file=each.first.source.name,
                line=each.first.line(("kind",)),
                nearest=nearest_name(each.kind, known - {each.kind}),
            )


def _name_errors(subject: ApiObject, location: ObjectLocation) -> Iterator[InputError]:
    try:
        check_name(subject)
    except ClusterError as error:
        yield InputError(str(error), file=location.source.name, line=location.line(("metadata", "name")))


def _causes(written: Mapping[str, object], kind: Kind[ApiObject]) -> list[Cause]:
    """List why an API server refuses an object."""
    data = cast("Data", without_nulls(written))
    definition = definition_of(kind.api_version, kind.name)
    if definition is not None and (mistake := decoding_problem(data, definition)):
        return [Cause("", mistake, "")]
    return list(object_causes(with_defaults(data, kind.api_version, kind.name), kind.api_version, kind.name))


def _parse_path(text: str) -> FieldPath:
    """Parse a path as messages have it, such as `spec.containers[0].resources.limits[example.com/gpu]`."""
    steps = (step or name for step, name in _STEP.findall(text))
    return tuple(int(step) if step.isdecimal() else step for step in steps)
