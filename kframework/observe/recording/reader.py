"""Recordings as they are read: the header, then line after line as far as they are whole."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar, get_args

import msgspec

from kframework.core.runtime.registry import Registry
from kframework.errors import InputError
from kframework.objects import find_kind
from kframework.objects.codec import decode, describe_decode_error
from kframework.objects.json_lines import read_lines
from kframework.observe.recording.annotations import guard_annotations
from kframework.observe.recording.writer import FORMAT, VERSION, Header, Line
from kframework.state.inbox import Deleted, Message, Upserted

T = TypeVar("T")

_ABOUT_OBJECTS: dict[str, type[Upserted | Deleted]] = {"Upserted": Upserted, "Deleted": Deleted}
_PLAIN: dict[str, type[Message]] = {
    kind.__name__: kind for kind in get_args(Message) if kind.__name__ not in _ABOUT_OBJECTS
}


#: The maximum length of a line; the longest ones are the values of a source.
MAX_LINE_BYTES = 32 << 20


class _TypeMeta(msgspec.Struct, frozen=True, rename="camel"):
    """The apiVersion and kind of an object."""

    api_version: str
    kind: str


class RecordingReader:
    """A recording that is being read up to line `number`; `cut_off` if its writer died or is still at work.

    Raises InputError if it is not one, or needs a newer kframework.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.number: int = 0
        self.cut_off: bool = False
        self._texts = self._whole_lines()
        self.header: Header = self._header(next(self._texts, b""))

    def __iter__(self) -> Iterator[Line]:
        return (self.read(text, Line) for text in self._texts)

    def message(self, line: Line) -> Message:
        plain, about_object = _PLAIN.get(line.what), _ABOUT_OBJECTS.get(line.what)
        if plain is not None:
            return self.read(line.body, plain)
        if about_object is None:
            raise self.error(f"unknown line {line.what!r}")
        named = self.read(line.body, _TypeMeta)
        kind = find_kind(named.api_version, named.kind)
        if kind is None:
            Registry.from_installed().load_all()  # the plugins of a later configuration may declare it
            kind = find_kind(named.api_version, named.kind)
        if kind is None:
            raise self.error(
                f"{named.kind} of {named.api_version} is an unknown kind: install the plugin that declares it"
            )
        try:
            return about_object(guard_annotations(decode(bytes(line.body), kind)))
        except InputError as error:
            raise self.error(str(error)) from error

    def read(self, text: bytes | msgspec.Raw, struct: type[T]) -> T:
        try:
            return msgspec.json.decode(text, type=struct)
        except (ValueError, RecursionError) as error:
            what = "is damaged from here on" if self.number > 1 else "is not a recording"
            raise self.error(f"{what}: {describe_decode_error(error)}") from error

    def error(self, message: str) -> InputError:
        return InputError(message, file=str(self.file), line=self.number or None)

    def _header(self, text: bytes) -> Header:
        if not text:
            raise self.error("is empty")
        head = self.read(text, _Head)
        if head.format != FORMAT:
            raise self.error(f"is not a recording: its format is {head.format!r}, not {FORMAT!r}")
        if head.version > VERSION:
            raise self.error(
                f"has version {head.version} of the format, and {VERSION} is the newest known: update kframework"
            )
        if head.version < VERSION:
            raise self.error(
                f"has version {head.version} of the format, and only {VERSION} is known: "
                "replay it with the kframework that wrote it"
            )
        return self.read(text, Header)

    def _whole_lines(self) -> Iterator[bytes]:
        """Yield whole lines: if the writer died, its unfinished line is left out."""
        try:
            with gzip.open(self.file) as lines:
                for number, text in read_lines(lines.readline, str(self.file), MAX_LINE_BYTES):
                    self.number = number
                    if not text.endswith(b"\n"):
                        self.cut_off = True
                        return
                    yield text
        except EOFError:
            self.cut_off = True
        except (gzip.BadGzipFile, zlib.error) as error:
            what = f"is damaged from here on: {error}" if self.number else "is not a recording: it is not compressed"
            raise self.error(what) from error


class _Head(msgspec.Struct, frozen=True):
    """The fields that the first line of a recording has in any version."""

    format: str = ""
    version: int = 0
