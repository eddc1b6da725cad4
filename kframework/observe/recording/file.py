"""The file of a recording: gzip, written by its own thread, so that the scheduler does not wait for the disk.

FILE is the part being written, FILE.1 the one before, and so on; a part begins with the state at the end of the one
before. Secrets, and annotations that may hold some, are replaced by a fingerprint, so that a change is still a change.
"""

from __future__ import annotations

import gzip
import logging
import os
import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from threading import Event, Thread
from typing import BinaryIO, NamedTuple

import msgspec

from kframework.core.cycle.records import Decision, GroupDecision
from kframework.objects import ApiObject, Node, Pod
from kframework.objects.codec import encode
from kframework.observe.recording.annotations import KEPT_ANNOTATIONS, keep_matcher, without_values
from kframework.state.inbox import BindingEnded, Deleted, Upserted

_log = logging.getLogger(__name__)

#: The default maximum size of all parts of a recording in bytes, and the number of parts.
MAX_BYTES, MAX_PARTS = 256 << 20, 4

#: The maximum number of entries that wait to be written; with more, the recording stops.
MAX_BACKLOG = 100_000

#: The number of entries that wakes the writer, and the seconds after which it wakes by itself: at most that much is
#: lost if the process dies.
_WAKE_ENTRIES, _WAKE_INTERVAL = 2_000, 0.5

#: The number of lines compressed at a time; other threads may run in between.
_LINES_PER_PACK = 64

#: The seconds that closing waits for the disk.
_CLOSE_TIMEOUT = 10.0

#: The time of an entry, and its content: a record, written under the name of its class, or only a name.
Entry = tuple[float, msgspec.Struct | str]

_encode = msgspec.json.Encoder().encode


class PartStart(NamedTuple):
    """The beginning of a part: its header, its nodes in their order, the entries before the decisions, and after."""

    header: msgspec.Struct
    nodes: Sequence[str] = ()
    before: Sequence[Entry] = ()
    after: Sequence[Entry] = ()


class RecordingFile:
    """A file that accepts entries at once, and writes them later; the first error is logged and ends it.

    An existing file becomes FILE.1 only when the recording begins, so that a start that fails before does not cost an
    old recording. OSError if the file cannot be opened.
    """

    def __init__(self, file: Path, limit: int = MAX_BYTES, annotations: Sequence[str] = KEPT_ANNOTATIONS) -> None:
        self._file = file
        self._limit = limit // MAX_PARTS
        self.failed: bool = False
        self._raw: BinaryIO
        self._packed: gzip.GzipFile
        self._waiting: deque[Entry | PartStart] = deque()
        self._encoder = LineEncoder(annotations)
        self._has_begun = self._limit_reached = self._rotating = self._closing = False
        self._wake = Event()
        self._rotates = file.is_file() or not file.exists()
        os.close(self._create(0))
        self._thread = Thread(target=self._run, name=f"recording to {file}", daemon=True)
        self._thread.start()

    # -- in the recorder's thread --------------------------------------------------------------------------------------

    def put(self, entry: Entry) -> None:
        if self.failed or self._closing:
            return
        self._waiting.append(entry)
        if len(self._waiting) > _WAKE_ENTRIES:
            self._wake.set()
            if len(self._waiting) > MAX_BACKLOG:
                self._give_up("the disk is too slow")

    @property
    def is_full(self) -> bool:
        """Whether it is time for a new part: `begin` it when that suits, or `end`."""
        return self._limit_reached and not self._rotating and not self._closing

    def begin(self, part_start: PartStart) -> None:
        self._rotating = True
        self._waiting.append(part_start)

    def end(self, why: str) -> None:
        """Write the waiting entries, and drop all later ones."""
        _log.warning("recording to %s stopped: %s; scheduling continues", self._file, why)
        self._closing = True
        self._wake.set()

    def close(self) -> None:
        """Write the waiting entries, and finish the file; a disk that does not respond is not waited for."""
        self._closing = True
        self._wake.set()
        self._thread.join(_CLOSE_TIMEOUT)
        if self._thread.is_alive():
            self._give_up("the disk does not respond")

    def _give_up(self, why: object) -> None:
        if not self.failed:
            self.failed = True
            _log.warning("recording to %s stopped: %s; scheduling continues", self._file, why)

    # -- in the thread of the writer -----------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self.failed and not (self._closing and not self._waiting):
                self._wake.wait(_WAKE_INTERVAL)
                self._wake.clear()
                self._write_waiting()
                if self._has_begun:
                    self._packed.flush(zlib.Z_SYNC_FLUSH)
                    self._limit_reached = self._exceeds_limit()
        except OSError as error:
            self._give_up(error.strerror or error)
        except Exception as error:  # an entry that cannot be encoded, such as text that is no Unicode
            self._give_up(error)
        finally:
            self._waiting.clear()
            for file in (self._packed, self._raw) if self._has_begun else ():
                try:
                    file.close()
                except OSError as error:
                    self._give_up(error.strerror or error)

    def _write_waiting(self) -> None:
        lines: list[bytes] = []
        for _ in range(len(self._waiting)):
            entry = self._waiting.popleft()
            if isinstance(entry, PartStart):
                self._pack(lines)
                lines = []
                self._rotate(entry)
            else:
                lines.append(self._encoder.line(entry))
            if len(lines) == _LINES_PER_PACK:
                self._pack(lines)
                lines = []
        self._pack(lines)

    def _pack(self, lines: Sequence[bytes]) -> None:
        if lines:
            self._packed.write(b"".join(lines))

    def _rotate(self, part_start: PartStart) -> None:
        if self._has_begun:
            self._packed.close()
            self._raw.close()
        if self._rotates and self._file.stat().st_size:
            # Every existing part gets the next number, and the last one is deleted.
            for number in range(MAX_PARTS - 1, 0, -1):
                part = self._part(number - 1)
                if part.exists():
                    part.replace(self._part(number))
        self._raw = open(self._create(os.O_TRUNC), "wb")
        # No name and no time go into it: the name of the file is its owner's, the times are the run's.
        self._packed = gzip.GzipFile(filename="", mode="wb", fileobj=self._raw, compresslevel=1, mtime=0)
        self._has_begun = True
        lines = self._encoder.part_start(part_start)
        while some := list(islice(lines, _LINES_PER_PACK)):
            self._pack(some)
        self._packed.flush(zlib.Z_SYNC_FLUSH)
        self._start_size = self._raw.tell()
        self._limit_reached = self._rotating = False

    def _exceeds_limit(self) -> bool:
        """Return whether the part is as large as it may be, yet not for its opening alone."""
        return self._rotates and self._raw.tell() > max(self._limit, 2 * self._start_size)

    def _create(self, more: int) -> int:
        """Open the file, created if missing; other users may not read a cluster's objects."""
        return os.open(self._file, os.O_WRONLY | os.O_CREAT | more, 0o600)

    def _part(self, number: int) -> Path:
        return self._file.with_name(f"{self._file.name}.{number}") if number else self._file


class LineEncoder:
    """A writer of lines that keeps the last of every object, and the last decision on every waiting pod and group."""

    def __init__(self, annotations: Sequence[str] = KEPT_ANNOTATIONS) -> None:
        self._is_kept = keep_matcher(annotations)
        # So fingerprints cannot be guessed from outside this process.
        self._key = os.urandom(32)
        self._nodes: dict[str, bytes] = {}
        self._objects: dict[str, bytes] = {}
        self._decisions: dict[str, bytes] = {}
        self._group_decisions: dict[str, bytes] = {}

    def line(self, entry: Entry) -> bytes:
        moment, what = entry
        if isinstance(what, str):
            return _line(moment, what)
        name = type(what).__name__
        if isinstance(what, Upserted | Deleted):
            line = _line(moment, "Upserted" if isinstance(what, Upserted) else name, self._encode_object(what.obj))
            self._keep_last(what, line)
            return line
        line = _line(moment, name, _encode(what))
        if isinstance(what, Decision):
            self._decisions[what.uid] = line
        elif isinstance(what, GroupDecision):
            self._group_decisions[f"{what.kind} {what.group}"] = line
        elif isinstance(what, BindingEnded) and what.status is not None:
            self._decisions.pop(what.uid, None)
        return line

    def _keep_last(self, what: Upserted | Deleted, line: bytes) -> None:
        obj, metadata = what.obj, what.obj.metadata
        # No other object that exists at the same time has this name.
        name = metadata.uid or f"{type(obj).__name__} {metadata.namespace}/{metadata.name}"
        lines, key = (self._nodes, metadata.name) if isinstance(obj, Node) else (self._objects, name)
        if isinstance(what, Upserted):
            lines[key] = line
        else:
            lines.pop(key, None)
            self._group_decisions.pop(f"{type(obj).__name__.lower()} {metadata.namespace}/{metadata.name}", None)
        if isinstance(obj, Pod) and (isinstance(what, Deleted) or obj.spec.node_name):
            self._decisions.pop(metadata.uid, None)

    def part_start(self, part_start: PartStart) -> Iterator[bytes]:
        yield _encode(part_start.header) + b"\n"
        # In the order in which they are evaluated, so that the replay has the same order.
        yield from (self._nodes[name] for name in part_start.nodes if name in self._nodes)
        yield from self._objects.values()
        yield from (self.line(entry) for entry in part_start.before)
        yield from self._decisions.values()
        yield from self._group_decisions.values()
        yield from (self.line(entry) for entry in part_start.after)

    def _encode_object(self, obj: ApiObject) -> bytes:
        encoded = encode(without_values(obj, self._is_kept, self._fingerprint))
        if type(obj).__name__ != "Secret":
            return encoded
        secret = msgspec.json.decode(encoded)
        for field in ("data", "stringData"):
            values = secret.get(field)
            if isinstance(values, Mapping):
                secret[field] = {key: self._fingerprint(str(value)) for key, value in values.items()}
        return msgspec.json.encode(secret)

    def _fingerprint(self, text: str) -> str:
        return blake2b(text.encode(), key=self._key, digest_size=12).hexdigest()


def _line(moment: float, what: str, body: bytes = b"") -> bytes:
    """Write a line, by hand because there are ten for every pod."""
    with_body = b',"with":' + body if body else b""
    return b'{"at":%b,"what":"%b"%b}\n' % (_encode(moment), what.encode(), with_body)
