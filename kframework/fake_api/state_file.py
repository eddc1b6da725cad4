"""A cluster on disk: what a fake API server keeps over a restart.

A line that says what it is, and then each object as the API shows it, one a line: uids and managed fields are kept.
Versions go on where they were, so that whoever watched from before is told to list anew.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from kframework.errors import InputError
from kframework.fake_api.custom.definitions import CustomResourceDefinition, defined
from kframework.fake_api.served import built_in, built_in_kinds, declared
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import text
from kframework.objects import ApiObject, Kind, all_kinds, kind_of
from kframework.objects.codec import convert

_KIND = "ClusterState"
_DEFINITION = kind_of(CustomResourceDefinition)
_REMEDY = "remove the file, or name another with --state-file, to begin anew"


class _Head(msgspec.Struct, frozen=True, rename="camel"):
    """What the first line says: `version` is that of the last write."""

    kind: str = ""
    version: int = 0


class Kept(NamedTuple):
    """A cluster as it was: its objects, their documents in the same order, and the version of its last write."""

    objects: list[ApiObject]
    written: list[Data]
    version: int


class StateFile:
    """The file of one cluster; nobody but its owner can read it, as it holds Secrets.

    It is read when this is made, and so in no event loop: InputError for a file that holds no cluster.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        #: What it held then; None if there was no file.
        self.kept: Kept | None = self._read()

    def _read(self) -> Kept | None:
        try:
            lines = self._path.read_bytes().splitlines()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._error(error.strerror or str(error)) from error
        line, *rest = lines or [b""]
        try:
            head = msgspec.json.decode(line, type=_Head)
        except (ValueError, RecursionError):
            head = _Head()
        if head.kind != _KIND:
            raise self._error(f"holds no state of a cluster; {_REMEDY}", 1)
        documents: list[Data] = []
        for number, line in enumerate(rest, 2):
            try:
                documents.append(msgspec.json.decode(line, type=dict[str, object]))
            except (ValueError, RecursionError) as error:
                raise self._error(f"is damaged here: {error}; {_REMEDY}", number) from error
        served = [*map(built_in, built_in_kinds()), *map(declared, all_kinds())]
        kinds = {(each.stored.api_version, each.stored.name): each.stored for each in served}
        for number, document in enumerate(documents, 2):
            if document.get("kind") == _DEFINITION.name:
                definition = self._object(document, kinds, number)
                if isinstance(definition, CustomResourceDefinition):
                    stored = [each.stored for each in defined(definition)]
                    kinds |= {(kind.api_version, kind.name): kind for kind in stored}
        objects = [self._object(document, kinds, number) for number, document in enumerate(documents, 2)]
        return Kept(objects, documents, head.version)

    def write(self, bodies: Iterable[bytes], version: int) -> None:
        """Put a cluster in the place of the one that it held, as a whole or not at all; raises OSError."""
        head = msgspec.json.encode(_Head(_KIND, version))
        descriptor, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.")  # of mode 0600
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.writelines(line + b"\n" for line in (head, *bodies))
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self._path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def _object(self, document: Data, kinds: dict[tuple[str, str], Kind[ApiObject]], number: int) -> ApiObject:
        api_version, name = text(document, "apiVersion"), text(document, "kind")
        kind = kinds.get((api_version, name))
        if kind is None:
            why = f"{name} ({api_version}) is of a kind that is not served here: is a plugin not installed any more?"
            raise self._error(f"{why} {_REMEDY}", number)
        try:
            return convert(document, kind)
        except InputError as error:
            raise self._error(f"is damaged here: {error}; {_REMEDY}", number) from error

    def _error(self, message: str, line: int | None = None) -> InputError:
        return InputError(message, file=str(self._path), line=line)
