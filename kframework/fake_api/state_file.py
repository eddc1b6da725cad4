"""A cluster on disk, which a fake API server keeps across restarts.

The first line identifies the file, then each object is one line in its API form, with uids and managed fields.
Versions continue, so that watches from before the restart have to list again.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from kframework.errors import InputError
from kframework.fake_api.custom.definitions import CustomResourceDefinition, defined_resources
from kframework.fake_api.resources import built_in_kinds, built_in_resource, declared_resource
from kframework.fake_api.wire.documents import Data
from kframework.objects import ApiObject, Kind, all_kinds, kind_of
from kframework.objects.codec import convert
from kframework.objects.plain_data import text
from kframework.objects.text_files import replace_file

_KIND = "ClusterState"
_DEFINITION = kind_of(CustomResourceDefinition)
_REMEDY = "remove the file to start with an empty cluster, or name another with --state-file"


class _StateHeader(msgspec.Struct, frozen=True, rename="camel"):
    """The first line; `version` is that of the last write."""

    kind: str = ""
    version: int = 0


class SavedState(NamedTuple):
    """A saved cluster: objects, their documents in the same order, and the version of its last write."""

    objects: list[ApiObject]
    documents: list[Data]
    version: int


class StateFile:
    """The file of one cluster, readable by its owner only, because it contains Secrets.

    The constructor reads it, so call it outside of event loops; InputError for an invalid file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        #: The content at that time; None if the file did not exist.
        self.saved: SavedState | None = self._read()

    def _read(self) -> SavedState | None:
        try:
            lines = self._path.read_bytes().splitlines()
        except FileNotFoundError:
            if not self._path.parent.is_dir():
                raise self._error(
                    "its folder does not exist: create it, or name another file with --state-file"
                ) from None
            return None
        except OSError as error:
            raise self._error(error.strerror or str(error)) from error
        line, *rest = lines or [b""]
        try:
            head = msgspec.json.decode(line, type=_StateHeader)
        except (ValueError, RecursionError):
            head = _StateHeader()
        if head.kind != _KIND:
            raise self._error(f"is not a saved cluster; {_REMEDY}", 1)
        documents: list[Data] = []
        for number, line in enumerate(rest, 2):
            try:
                documents.append(msgspec.json.decode(line, type=dict[str, object]))
            except (ValueError, RecursionError) as error:
                raise self._error(f"is damaged: {error}; {_REMEDY}", number) from error
        served = [*map(built_in_resource, built_in_kinds()), *map(declared_resource, all_kinds())]
        kinds = {(each.storage_kind.api_version, each.storage_kind.name): each.storage_kind for each in served}
        for number, document in enumerate(documents, 2):
            if document.get("kind") == _DEFINITION.name:
                definition = self._decode_object(document, kinds, number)
                if isinstance(definition, CustomResourceDefinition):
                    stored = [each.storage_kind for each in defined_resources(definition)]
                    kinds |= {(kind.api_version, kind.name): kind for kind in stored}
        objects = [self._decode_object(document, kinds, number) for number, document in enumerate(documents, 2)]
        return SavedState(objects, documents, head.version)

    def write(self, bodies: Iterable[bytes], version: int) -> None:
        """Replace the saved cluster atomically; raises OSError."""
        head = msgspec.json.encode(_StateHeader(_KIND, version))
        replace_file(self._path, (line + b"\n" for line in (head, *bodies)))

    def _decode_object(self, document: Data, kinds: dict[tuple[str, str], Kind[ApiObject]], number: int) -> ApiObject:
        api_version, name = text(document, "apiVersion"), text(document, "kind")
        kind = kinds.get((api_version, name))
        if kind is None:
            why = f"{name} ({api_version}) is not served here; install the plugin that declares it, or"
            raise self._error(f"{why} {_REMEDY}", number)
        try:
            return convert(document, kind)
        except InputError as error:
            raise self._error(f"is damaged: {error}; {_REMEDY}", number) from error

    def _error(self, message: str, line: int | None = None) -> InputError:
        return InputError(message, file=str(self._path), line=line)
