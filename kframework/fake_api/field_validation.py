"""Unknown and duplicate fields, by `fieldValidation` of the query, with kube-apiserver's messages.

`Strict` rejects them, `Warn` (the default) reports them in a header, and `Ignore` drops them silently. Unknown fields
are never stored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from kframework.client import api_errors
from kframework.client.transport import JSON
from kframework.fake_api.calls import ApiCall, decode_json_object, decode_object
from kframework.fake_api.patch.patches import JSON_PATCH
from kframework.fake_api.schema.shared_specs import SharedSpecs
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.protobuf import PROTOBUF
from kframework.in_memory.schema.causes import format_value
from kframework.in_memory.schema.decoding import decoding_problem
from kframework.in_memory.schema.defaults import with_defaults
from kframework.objects import Pod
from kframework.objects.openapi.definitions import OBJECT_META, definition_of
from kframework.objects.openapi.unknown_fields import remove_fields, unknown_fields
from kframework.objects.problem import FieldPath, format_path


class _ObjectWithDuplicates(dict[str, object]):
    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        names = [name for name, _ in pairs]
        self.duplicates = [name for name in self if names.count(name) > 1]


def find_duplicates(body: bytes) -> list[FieldPath]:
    """List the duplicate fields of a JSON text; ClusterError 400 if it is nested too deeply."""
    # A duplicate field is an additional string, and counting quotes takes a fifth of the time of comparing pairs.
    if b"\\" not in body:
        with suppress(ValueError, RecursionError):
            if body.count(b'"') == msgspec.json.encode(msgspec.json.decode(body)).count(b'"'):
                return []
    objects: list[_ObjectWithDuplicates] = []

    def read(pairs: list[tuple[str, object]]) -> dict[str, object]:
        plain = dict(pairs)
        if len(plain) == len(pairs):
            return plain
        objects.append(_ObjectWithDuplicates(pairs))
        return objects[-1]

    try:
        data = json.loads(body, object_pairs_hook=read)
        return list(_duplicate_paths(data, ())) if objects else []
    except RecursionError as error:
        raise api_errors.bad_request("the body of the request is nested too deeply") from error


def _duplicate_paths(value: object, path: FieldPath) -> Iterator[FieldPath]:
    if isinstance(value, _ObjectWithDuplicates):
        yield from ((*path, name) for name in value.duplicates)
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _duplicate_paths(item, (*path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _duplicate_paths(item, (*path, index))


_DIRECTIVES = ("", "Ignore", "Strict", "Warn")

_MAX_PROBLEMS = 100
#: Limit of all warnings; longer ones are truncated to _MAX_EACH each.
_MAX_TOTAL, _MAX_EACH = 4096, 256


class FieldValidation:
    """Checks the fields of an object that a call writes; ClusterError 422 for an unknown directive.

    `headers` are warnings for the response.
    """

    def __init__(self, call: ApiCall) -> None:
        self._request = call.request
        self._resource = call.resource
        self._directive = call.query.get("fieldValidation", "")
        self.headers: dict[str, str] = {}
        if self._directive not in _DIRECTIVES:
            supported = ", ".join(map(format_value, _DIRECTIVES))
            directive = format_value(self._directive[:_MAX_EACH])
            why = f"Unsupported value: {directive}: supported values: {supported}"
            raise call.invalid("fieldValidation", why)

    def decode_body(self) -> Data:
        """Decode the body's object with its defaults; ClusterError as `decode_object`, or 400 if it is rejected."""
        if self._resource.kind.struct is Pod and self._request.content_type.startswith(JSON):
            shared = _shared_specs.read(self._request.body)
            if shared is not None:
                return shared
        data = decode_object(self._request)
        if self._request.content_type.startswith(PROTOBUF):
            return self._with_defaults(data)  # protobuf has field numbers, so no unknown names
        known, unknown = self._split_unknown(data)
        if rejection := self._decoding_problem(known) or self._check_problems([*unknown, *self._duplicate_problems()]):
            kind, version = self._resource.kind.name, self._resource.version
            raise api_errors.bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {rejection}')
        return self._with_defaults(known)

    def check_patched(self, data: Data) -> Data:
        """Check a patched object and add its defaults; ClusterError 422 if it is rejected."""
        known, unknown = self._split_unknown(data)
        if why := self._decoding_problem(known):
            raise api_errors.invalid_patch(msgspec.json.encode(data).decode()[:_MAX_TOTAL], why)
        prefix = "json patch " if self._request.content_type.startswith(JSON_PATCH) else ""
        if rejection := self._check_problems([*(f"{prefix}{each}" for each in self._duplicate_problems()), *unknown]):
            raise api_errors.invalid_patch(self._request.body.decode(errors="replace")[:_MAX_TOTAL], rejection)
        return self._with_defaults(known)

    def _with_defaults(self, data: Data) -> Data:
        kind, custom = self._resource.kind, self._resource.custom
        return with_defaults(data, kind.api_version, kind.name) if custom is None else custom.with_defaults(data)

    def _decoding_problem(self, data: Data) -> str:
        kind = self._resource.kind
        name = definition_of(kind.api_version, kind.name) if self._resource.custom is None else None
        return (
            decoding_problem(data, name) if name else decoding_problem(data.get("metadata"), OBJECT_META, ("metadata",))
        )

    def _split_unknown(self, data: Data) -> tuple[Data, list[str]]:
        kind, custom = self._resource.kind, self._resource.custom
        own = data if custom is None else {"metadata": data.get("metadata")}  # a definition describes the rest
        paths = [field.path for field in unknown_fields(own, kind.api_version, kind.name)]
        if custom is not None:
            paths += custom.unknown_fields(data)
        return remove_fields(data, paths), [f"unknown field {format_value(format_path(path))}" for path in paths]

    def _duplicate_problems(self) -> list[str]:
        return [f"duplicate field {format_value(format_path(path))}" for path in find_duplicates(self._request.body)]

    def _check_problems(self, problems: Sequence[str]) -> str:
        """Return why the object is rejected, "" if it is not; add warnings to the headers."""
        distinct = list(dict.fromkeys(problems))[:_MAX_PROBLEMS]
        if distinct and self._directive == "Strict":
            return f"strict decoding error: {', '.join(distinct)}"
        if distinct and self._directive != "Ignore":
            self.headers["warning"] = ", ".join(_format_warnings(distinct))
        return ""


def _format_warnings(texts: Sequence[str]) -> Iterator[str]:
    """Format warnings for a header; clients read headers up to a limit."""
    limit = _MAX_EACH if sum(map(len, texts)) > _MAX_TOTAL else _MAX_TOTAL
    length = 0
    for text in texts:
        if length < _MAX_TOTAL:
            escaped = text[:limit].replace("\\", "\\\\").replace('"', '\\"')
            yield f'299 - "{escaped}"'
        length += len(text[:limit])


def _read_pod(body: bytes) -> Data | None:
    """Decode a pod, or a part of one; None if it has any problem."""
    data = decode_json_object(body)
    try:
        _plain_pods.decode(body)  # a tenth of the work of checking each field
    except (ValueError, RecursionError):
        if decoding_problem(data, "io.k8s.api.core.v1.Pod") or unknown_fields(data, "v1", "Pod"):
            return None
    return None if find_duplicates(body) else data


class _PodMetadata(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _EmptySpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class _PlainPod(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The fields of most pods besides their spec."""

    api_version: str = ""
    kind: str = ""
    metadata: _PodMetadata = _PodMetadata()
    spec: _EmptySpec = _EmptySpec()


_plain_pods = msgspec.json.Decoder(_PlainPod)


_shared_specs = SharedSpecs(_read_pod, partial(with_defaults, api_version="v1", kind="Pod"))
