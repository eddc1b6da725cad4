"""Fields that a kind does not have, and fields that stand twice: what becomes of them, as their writer wants it.

That is `fieldValidation` of the query: `Strict` refuses them, `Warn`, which holds without it, says so in a header, and
`Ignore` says nothing. What is unknown is never stored. The texts are kube-apiserver's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from kframework.client import api_errors
from kframework.client.transport import JSON
from kframework.fake_api.calls import Call, json_object, object_in
from kframework.fake_api.patch.patches import JSON_PATCH
from kframework.fake_api.schema.causes import written
from kframework.fake_api.schema.decoding import undecodable
from kframework.fake_api.schema.defaults.kinds import with_defaults
from kframework.fake_api.schema.shared_specs import SharedSpecs
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.protobuf import PROTOBUF
from kframework.objects import Pod
from kframework.objects.openapi.definitions import OBJECT_META, definition_of
from kframework.objects.openapi.unknown_fields import unknown_fields, without
from kframework.objects.problem import FieldPath, format_path


class _Object(dict[str, object]):
    """A JSON object in which names stand twice."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        names = [name for name, _ in pairs]
        self.twice = [name for name in self if names.count(name) > 1]


def duplicates(body: bytes) -> list[FieldPath]:
    """List the fields of a JSON text that stand twice; ClusterError 400 for one that is nested too deeply."""
    # A field that stands twice is a string more. Strings are counted by their quotes: a fifth of the time of pairs.
    if b"\\" not in body:
        with suppress(ValueError, RecursionError):
            if body.count(b'"') == msgspec.json.encode(msgspec.json.decode(body)).count(b'"'):
                return []
    found: list[_Object] = []

    def read(pairs: list[tuple[str, object]]) -> dict[str, object]:
        plain = dict(pairs)
        if len(plain) == len(pairs):
            return plain
        found.append(_Object(pairs))
        return found[-1]

    try:
        data = json.loads(body, object_pairs_hook=read)
        return list(_paths(data, ())) if found else []
    except RecursionError as error:
        raise api_errors.bad_request("the body of the request is nested too deeply") from error


def _paths(value: object, path: FieldPath) -> Iterator[FieldPath]:
    if isinstance(value, _Object):
        yield from ((*path, name) for name in value.twice)
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _paths(item, (*path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _paths(item, (*path, index))


_DIRECTIVES = ("", "Ignore", "Strict", "Warn")

#: So many problems are told. Where warnings have more characters together, each is cut off after a few.
_PROBLEMS = 100
_TOGETHER, _EACH = 4096, 256


class FieldValidation:
    """Looks at the fields of what one call writes; ClusterError 422 for a directive that there is not.

    `headers` are for the answer: what the client is warned of.
    """

    def __init__(self, call: Call) -> None:
        self._request = call.request
        self._resource = call.resource
        self._directive = call.query.get("fieldValidation", "")
        self.headers: dict[str, str] = {}
        if self._directive not in _DIRECTIVES:
            supported = ", ".join(map(written, _DIRECTIVES))
            why = f"Unsupported value: {written(self._directive[:_EACH])}: supported values: {supported}"
            raise call.invalid("fieldValidation", why)

    def said(self) -> Data:
        """Return the object in the body with its defaults; ClusterError as `object_in`, and 400 for one refused."""
        if self._resource.kind.struct is Pod and self._request.content_type.startswith(JSON):
            shared = _shared_specs.read(self._request.body)
            if shared is not None:
                return shared
        data = object_in(self._request)
        if self._request.content_type.startswith(PROTOBUF):
            return self._filled(data)  # fields have numbers there, and who knows a number has the field
        known, unknown = self._known(data)
        if refusal := self._undecodable(known) or self._refusal([*unknown, *self._twice()]):
            kind, version = self._resource.kind.name, self._resource.version
            raise api_errors.bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {refusal}')
        return self._filled(known)

    def patched(self, data: Data) -> Data:
        """Return what a patch has made of an object; ClusterError 422 for one that is refused."""
        known, unknown = self._known(data)
        if why := self._undecodable(known):
            raise api_errors.invalid_patch(msgspec.json.encode(data).decode()[:_TOGETHER], why)
        prefix = "json patch " if self._request.content_type.startswith(JSON_PATCH) else ""
        if refusal := self._refusal([*(f"{prefix}{each}" for each in self._twice()), *unknown]):
            raise api_errors.invalid_patch(self._request.body.decode(errors="replace")[:_TOGETHER], refusal)
        return self._filled(known)

    def _filled(self, data: Data) -> Data:
        kind, custom = self._resource.kind, self._resource.custom
        return with_defaults(data, kind.api_version, kind.name) if custom is None else custom.defaulted(data)

    def _undecodable(self, data: Data) -> str:
        kind = self._resource.kind
        name = definition_of(kind.api_version, kind.name) if self._resource.custom is None else None
        return undecodable(data, name) if name else undecodable(data.get("metadata"), OBJECT_META, ("metadata",))

    def _known(self, data: Data) -> tuple[Data, list[str]]:
        kind, custom = self._resource.kind, self._resource.custom
        paths = [field.path for field in unknown_fields(data, kind.api_version, kind.name)]
        if custom is not None:
            paths += custom.unknown(data)
        return without(data, paths), [f"unknown field {written(format_path(path))}" for path in paths]

    def _twice(self) -> list[str]:
        return [f"duplicate field {written(format_path(path))}" for path in duplicates(self._request.body)]

    def _refusal(self, problems: Sequence[str]) -> str:
        """Return why the object is refused, if it is; else note what its writer is warned of."""
        told = list(dict.fromkeys(problems))[:_PROBLEMS]
        if told and self._directive == "Strict":
            return f"strict decoding error: {', '.join(told)}"
        if told and self._directive != "Ignore":
            self.headers["warning"] = ", ".join(_warnings(told))
        return ""


def _warnings(texts: Sequence[str]) -> Iterator[str]:
    """Write warnings as a header has them; there is an end to what clients read of headers."""
    longest = _EACH if sum(map(len, texts)) > _TOGETHER else _TOGETHER
    length = 0
    for text in texts:
        if length < _TOGETHER:
            escaped = text[:longest].replace("\\", "\\\\").replace('"', '\\"')
            yield f'299 - "{escaped}"'
        length += len(text[:longest])


def _read_pod(body: bytes) -> Data | None:
    """Read a pod, or a part of one; None if anything is wrong with it."""
    data = json_object(body)
    try:
        _plain_pods.decode(body)  # a tenth of the work of looking at each field
    except (ValueError, RecursionError):
        if undecodable(data, "io.k8s.api.core.v1.Pod") or unknown_fields(data, "v1", "Pod"):
            return None
    return None if duplicates(body) else data


class _Metadata(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class _NoSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class _PlainPod(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What most pods say beside their spec."""

    api_version: str = ""
    kind: str = ""
    metadata: _Metadata = _Metadata()
    spec: _NoSpec = _NoSpec()


_plain_pods = msgspec.json.Decoder(_PlainPod)


_shared_specs = SharedSpecs(_read_pod, partial(with_defaults, api_version="v1", kind="Pod"))
