"""Cluster files: the output of `kubectl get ... -o yaml` or `-o json`, or hand-written objects, read unchanged.

Valid files are read without line numbers: only an error reads the file a second time, as far as its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from kframework.errors import InputError, InputErrors
from kframework.objects.codec import locate_decode_error, without_nulls
from kframework.objects.kinds import Kind, find_kind, reference
from kframework.objects.meta import ApiObject, ApiStruct, ObjectMeta
from kframework.objects.problem import FieldPath, Problem, format_path
from kframework.objects.text_files import STDIN, read_text
from kframework.objects.validation import find_problem
from kframework.objects.yaml_documents import documents

#: The parts of an object that others may have too.
PARTS = ("spec", "status")

#: The maximum number of refused objects with a line each.
_MAX_ERRORS = 20

#: The maximum number of characters of a file.
_MAX_LENGTH = 1 << 30

#: The files of a folder that are cluster files.
SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class SkippedKind:
    """A kind that is not read, and how many objects of it the files hold."""

    api_version: str
    kind: str
    count: int
    first: ObjectLocation | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ManifestSource:
    """A file and its text; `<stdin>` for standard input."""

    name: str
    text: str


class ObjectLocation(NamedTuple):
    """The location of an object: a document of a source, and a path in it."""

    source: ManifestSource
    document: int
    path: FieldPath

    def line(self, below: FieldPath = ()) -> int | None:
        """Find the line of the object, or of a field below it, as far down as the text goes."""
        return find_line(self.source.text, self.document, (*self.path, *below))

    def __str__(self) -> str:
        line = self.line()
        return self.source.name if line is None else f"{self.source.name}:{line}"


class FaultyObject(Exception):
    """Raised for an object that is refused; its line is found by `to_error`, as that reads the file again."""

    def __init__(self, location: ObjectLocation, subject: str, problem: Problem) -> None:
        super().__init__(str(problem))
        self.location: ObjectLocation = location
        self.subject: str = subject
        self.problem: Problem = problem

    def to_error(self) -> InputError:
        path, file = self.problem.path, self.location.source.name
        return InputError(
            self.problem.message,
            file=file,
            line=self.location.line(path),
            subject=self.subject,
            path=format_path(path),
            nearest=self.problem.nearest,
        )


def create_errors(faulty: Sequence[FaultyObject]) -> list[InputError]:
    """Create the errors of refused objects: of the first ones each by itself, of the others by their number."""
    errors = [each.to_error() for each in faulty[:_MAX_ERRORS]]
    if len(faulty) > _MAX_ERRORS:
        errors.append(InputError(f"and {len(faulty) - _MAX_ERRORS} more"))
    return errors


@dataclass(frozen=True, slots=True)
class Manifest:
    """The objects of some files in their order, and the kinds that were skipped.

    `documents` are the objects as in the file, with the fields that a scheduler does not read. Objects that come from
    no file are last, and have neither document nor location.
    """

    objects: list[ApiObject] = field(default_factory=list)
    skipped: list[SkippedKind] = field(default_factory=list)
    documents: list[dict[str, object]] = field(default_factory=list)
    locations: list[ObjectLocation] = field(default_factory=list)


class _PartCache:
    """The structs of shared parts (`_PartSharer`) by the identity of their data, which a manifest keeps."""

    def __init__(self) -> None:
        self._structs: dict[tuple[type, int], object] = {}

    def convert(self, data: Mapping[Any, object], kind: Kind[ApiObject]) -> ApiObject:
        types = _part_types(kind.struct)
        if not types:
            return msgspec.convert(data, kind.struct)
        parts = dict[str, Any]()
        for name, struct in types.items():
            if name in data:
                value = data[name]
                key = struct, id(value)
                part = self._structs.get(key)
                if part is None:
                    part = msgspec.convert(value, struct)
                    if struct is not ObjectMeta:
                        self._structs[key] = part
                parts[name] = part
        return kind.struct(**parts)


@cache
def _part_types(struct: type[ApiObject]) -> dict[str, type[ApiStruct]]:
    """Return the types of the parts of a kind that has no other fields than metadata, spec and status."""
    fields = msgspec.structs.fields(struct)
    types = {field.name: field.type for field in fields if isinstance(field.type, type)}
    has_others = not types.keys() <= {"metadata", *PARTS} or len(types) < len(fields)
    return {} if has_others or not all(issubclass(each, ApiStruct) for each in types.values()) else types


@dataclass(slots=True)
class _ManifestReader:
    manifest: Manifest = field(default_factory=Manifest)
    parts: _PartCache = field(default_factory=_PartCache)
    first: dict[tuple[str, str, str, str], ObjectLocation] = field(default_factory=dict)
    unknown: dict[tuple[str, str], list[ObjectLocation]] = field(default_factory=dict)
    faulty: list[FaultyObject] = field(default_factory=list)

    def add(self, data: object, location: ObjectLocation, listed_as: tuple[str, str]) -> None:
        """Add an object, or the items of a list; `listed_as` is the type of items without a kind."""
        try:
            self._add(data, location, listed_as)
        except FaultyObject as fault:
            self.faulty.append(fault)

    def _add(self, data: object, location: ObjectLocation, listed_as: tuple[str, str]) -> None:
        if not isinstance(data, dict):
            raise FaultyObject(location, "", Problem((), "expected an object with apiVersion and kind"))
        api_version, name = _read_type(data, location, listed_as)
        if name.endswith("List") and "items" in data:
            items = data["items"] or ()
            if not isinstance(items, list | tuple):
                raise FaultyObject(location, "", Problem(("items",), "expected a list"))
            for index, item in enumerate(items):
                below = ObjectLocation(location.source, location.document, (*location.path, "items", index))
                self.add(item, below, (api_version, name[:-4]))
            return
        version, data = convert_version(api_version, name, data)
        kind = find_kind(version, name)
        if kind is None:
            self.unknown.setdefault((api_version, name), []).append(location)
            return
        found = _decode_object(data, kind, location, self.parts)
        namespace = (found.metadata.namespace or "default") if kind.namespaced else ""
        first = self.first.setdefault((kind.api_version, kind.name, namespace, found.metadata.name), location)
        if first is not location:
            problem = Problem((), f"given twice, first at {first}: remove one of them")
            raise FaultyObject(location, reference(found), problem)
        self.manifest.objects.append(found)
        # A copy of each object would take a fifth of the memory for reading 100,000 small ones.
        is_typed = "apiVersion" in data and "kind" in data
        whole = data if isinstance(data, dict) and is_typed else {"apiVersion": version, "kind": name, **data}
        self.manifest.documents.append(whole)
        self.manifest.locations.append(location)


def read(paths: Iterable[str]) -> Manifest:
    """Read the objects of files, of folders (*.yaml, *.yml and *.json below them, sorted) and, for `-`, of stdin.

    Raises InputError for an unreadable file, and for all objects that are given twice, have no name, values of a wrong
    type, or values that an API server rejects.
    """
    reader = _ManifestReader()
    for source in _read_sources(paths):
        for index, document in enumerate(parse_documents(source)):
            if document is not None:
                reader.add(document, ObjectLocation(source, index, ()), ("", ""))
    if reader.faulty:
        raise InputErrors(create_errors(reader.faulty))
    reader.manifest.skipped.extend(
        SkippedKind(*names, len(locations), locations[0]) for names, locations in reader.unknown.items()
    )
    return reader.manifest


def _read_sources(paths: Iterable[str]) -> Iterator[ManifestSource]:
    for path in paths:
        if path != STDIN and Path(path).is_dir():
            files = sorted(file for file in Path(path).rglob("*") if file.suffix in SUFFIXES and file.is_file())
            if not files:
                raise InputError("no *.yaml, *.yml or *.json file in this folder", file=path)
            yield from map(read_source, files)
        else:
            yield read_source(path)


def read_source(path: str | Path) -> ManifestSource:
    """Read a file, or stdin for `-`; raises InputError."""
    name, text = read_text(path, _MAX_LENGTH, InputError)
    if text.startswith("{") and "\n{" in text:
        # JSON objects one after the other, as kubectl reads them, are the documents of YAML on the same lines.
        text = re.sub(r"(?<=})(\s*\n)(?={)", r"\1--- ", text)
    return ManifestSource(name, text)


def parse_documents(source: ManifestSource) -> Iterator[object]:
    """Read the documents of a source one by one; raises InputError."""
    if source.text.lstrip().startswith("{"):
        try:
            yield _json_document(source.text)
            return
        except (msgspec.DecodeError, RecursionError):
            pass  # a flow mapping of YAML begins like JSON; if it is neither, the YAML parser reports the error
    try:
        for document in documents(source.text):
            yield _share_parts_of_items(document)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        raise InputError(f"is not YAML: {error.problem or error.context}", file=source.name, line=line) from error
    except yaml.reader.ReaderError as error:
        line = source.text.count("\n", 0, error.position) + 1
        problem = f"is not YAML: {error.reason}: U+{error.character:04X}"
        raise InputError(problem, file=source.name, line=line) from error
    except yaml.YAMLError as error:
        raise InputError(f"is not YAML: {' '.join(str(error).split())}", file=source.name) from error


def _json_document(text: str) -> dict[str, object]:
    """Decode an object, the items of a list one by one: 100,000 pods as plain data take 250 MB unless they share."""
    fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    return {name: _json_items(raw) if name == "items" else msgspec.json.decode(raw) for name, raw in fields.items()}


def _json_items(text: msgspec.Raw) -> object:
    try:
        items = msgspec.json.decode(text, type=list[msgspec.Raw])
    except msgspec.ValidationError:
        return msgspec.json.decode(text)
    share = _PartSharer()
    return [share(msgspec.json.decode(item)) for item in items]


def _share_parts_of_items(document: object) -> object:
    items = document.get("items") if isinstance(document, dict) else None
    if isinstance(items, list):
        share = _PartSharer()
        for item in items:
            share(item)
    return document


class _PartSharer:
    """Shares equal parts among objects, such as pods of one template."""

    def __init__(self) -> None:
        self._known: dict[bytes, object] = {}

    def __call__(self, data: object) -> object:
        if isinstance(data, dict):
            for name in PARTS:
                part = data.get(name)
                if isinstance(part, dict):
                    with suppress(OverflowError, RecursionError, TypeError, ValueError):  # YAML knows more than JSON
                        # Not as JSON, where a number and its text are the same key.
                        data[name] = self._known.setdefault(msgspec.msgpack.encode(part), part)
        return data


def _read_type(data: Mapping[object, object], location: ObjectLocation, listed_as: tuple[str, str]) -> tuple[str, str]:
    """Read apiVersion and kind; the items of a typed list go without."""
    api_version, kind = data.get("apiVersion") or listed_as[0], data.get("kind") or listed_as[1]
    for name, value in (("apiVersion", api_version), ("kind", kind)):
        if not value:
            raise FaultyObject(location, "", Problem((), f"{name} is missing"))
        if not isinstance(value, str):
            raise FaultyObject(location, "", Problem((name,), "expected a string"))
    return str(api_version), str(kind)


def _decode_object(
    data: Mapping[Any, object], kind: Kind[ApiObject], location: ObjectLocation, parts: _PartCache
) -> ApiObject:
    try:
        found = parts.convert(data, kind)
    except msgspec.ValidationError:
        stripped = without_nulls(data)
        try:
            found = msgspec.convert(stripped, kind.struct)
        except msgspec.ValidationError as error:
            raise FaultyObject(location, _format_subject(data, kind), locate_decode_error(error, stripped)) from error
    problem = find_problem(found)
    if problem is not None:
        subject = reference(found) if found.metadata.name else kind.name
        raise FaultyObject(location, subject, problem)
    return found


def _format_subject(data: Mapping[object, object], kind: Kind[ApiObject]) -> str:
    """Name an object that does not fit its struct, from the readable part of its metadata."""
    metadata = data.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        return kind.name
    prefix = f"{metadata.get('namespace') or 'default'}/" if kind.namespaced else ""
    return f"{kind.name} {prefix}{metadata['name']}"


_Loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def find_line(text: str, document: int, path: FieldPath) -> int | None:
    """Find the line, from 1, of a path in a document of a text, as far down as the text goes.

    None for JSON that is no YAML, such as one that is indented by tabs.
    """
    events = yaml.parse(text, Loader=_Loader)
    try:
        for _ in range(document + 1):
            while not isinstance(next(events), yaml.DocumentStartEvent):
                pass
        event = next(events)
        line = _line_number(event)
        for step in path:
            entry = _find_entry(events, event, step)
            if entry is None:
                break
            line, event = entry
    except yaml.YAMLError:
        return None
    return line


def find_duplicate_keys(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and name of each key that its mapping has before; nothing more from where the text is not YAML."""
    open_collections: list[tuple[set[str] | None, bool]] = []  # the keys of a mapping, and whether a key is next
    try:
        for event in yaml.parse(text, Loader=_Loader):
            if isinstance(event, yaml.CollectionEndEvent):
                open_collections.pop()
            elif isinstance(event, yaml.NodeEvent):
                if open_collections and (keys := open_collections[-1][0]) is not None:
                    is_key = open_collections[-1][1]
                    open_collections[-1] = keys, not is_key
                    if is_key and isinstance(event, yaml.ScalarEvent):
                        if event.value in keys:
                            yield _line_number(event), event.value
                        keys.add(event.value)
                if isinstance(event, yaml.CollectionStartEvent):
                    is_mapping = isinstance(event, yaml.MappingStartEvent)
                    open_collections.append((set() if is_mapping else None, True))
    except yaml.YAMLError:
        return


def _find_entry(events: Iterator[yaml.Event], event: yaml.Event, step: str | int) -> tuple[int, yaml.Event] | None:
    """Go on to an entry of the node that has just begun; return the line where it begins, and its first event."""
    if isinstance(event, yaml.MappingStartEvent) and isinstance(step, str):
        key = next(events)
        while not isinstance(key, yaml.MappingEndEvent):
            value = _skip_node(events, key)
            if isinstance(key, yaml.ScalarEvent) and key.value == step:
                return _line_number(key), value
            key = _skip_node(events, value)
    elif isinstance(event, yaml.SequenceStartEvent) and isinstance(step, int):
        item = next(events)
        while step and not isinstance(item, yaml.SequenceEndEvent):
            item, step = _skip_node(events, item), step - 1
        return None if isinstance(item, yaml.SequenceEndEvent) else (_line_number(item), item)
    return None


def _skip_node(events: Iterator[yaml.Event], event: yaml.Event) -> yaml.Event:
    """Pass over the node that has just begun; return the event after it."""
    depth = int(isinstance(event, yaml.CollectionStartEvent))
    while depth:
        event = next(events)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
    return next(events)


def _line_number(event: yaml.Event) -> int:
    assert event.start_mark is not None
    return int(event.start_mark.line) + 1


_V1 = "resource.k8s.io/v1"
_GROUPS = "scheduling.k8s.io/v1beta1"

#: The fields that v1beta1 has in the request itself, and v1 in `exactly`.
_EXACTLY = ("deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity")

#: An object as YAML or JSON gives it.
Plain = Mapping[Any, object]


def convert_version(api_version: str, kind: str, data: Plain) -> tuple[str, Plain]:
    """Convert an object and its apiVersion to the version that is read, unchanged if that is it or none is."""
    match api_version:
        case "scheduling.k8s.io/v1alpha3" if kind in ("PodGroup", "Workload"):
            return _GROUPS, {**data, "apiVersion": _GROUPS}
        case "resource.k8s.io/v1alpha3" | "resource.k8s.io/v1beta2":
            return _V1, {**data, "apiVersion": _V1}
        case "resource.k8s.io/v1beta1":
            return _V1, {**_convert_from_beta1(kind, data), "apiVersion": _V1}
    return api_version, data


def _convert_from_beta1(kind: str, data: Plain) -> Plain:
    match kind:
        case "ResourceClaim":
            return _change_field(data, "spec", _convert_claim_spec)
        case "ResourceClaimTemplate":
            return _change_field(data, "spec", lambda spec: _change_field(spec, "spec", _convert_claim_spec))
        case "ResourceSlice":
            return _change_field(data, "spec", lambda spec: _change_items(spec, "devices", _convert_device))
    return data


def _convert_claim_spec(spec: Plain) -> Plain:
    return _change_field(spec, "devices", lambda devices: _change_items(devices, "requests", _convert_request))


def _convert_request(request: Plain) -> Plain:
    exactly = {field: request[field] for field in _EXACTLY if field in request}
    rest = {field: value for field, value in request.items() if field not in exactly}
    return {**rest, "exactly": exactly} if exactly else request


def _convert_device(device: Plain) -> Plain:
    basic = device.get("basic")
    return {"name": device.get("name"), **basic} if isinstance(basic, Mapping) else device


def _change_field(data: Plain, field: str, change: Callable[[Plain], Plain]) -> Plain:
    below = data.get(field)
    return {**data, field: change(below)} if isinstance(below, Mapping) else data


def _change_items(data: Plain, field: str, change: Callable[[Plain], Plain]) -> Plain:
    items = data.get(field)
    if not isinstance(items, list):
        return data
    return {**data, field: [change(item) if isinstance(item, Mapping) else item for item in items]}
