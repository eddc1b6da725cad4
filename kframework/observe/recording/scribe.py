"""What is recorded, put into lines of JSON; and what a later part must know of what went before.

All of it is done by the thread that writes: what a scheduler hands over is frozen, and costs it next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from kframework.core.cycle.decision import Decision
from kframework.objects import ApiObject, Node, Pod
from kframework.observe.recording.privacy import Privacy
from kframework.state.inbox import BindingEnded, Changed, Gone

#: When something happened, and what: a record, which goes by the name of its class, or nothing but a name.
Entry = tuple[float, msgspec.Struct | str]

_encode = msgspec.json.Encoder().encode


class Opening(NamedTuple):
    """What a part begins with: its header, its nodes in their order, what is told ahead of the decisions, and after."""

    header: msgspec.Struct
    nodes: Sequence[str] = ()
    before: Sequence[Entry] = ()
    after: Sequence[Entry] = ()


class Scribe:
    """Writes lines, and remembers the last of every object and the last decision on every pod that waits."""

    def __init__(self) -> None:
        self._privacy = Privacy()
        self._nodes: dict[str, bytes] = {}
        self._objects: dict[str, bytes] = {}
        self._decisions: dict[str, bytes] = {}

    def line(self, entry: Entry) -> bytes:
        """Write an entry."""
        moment, what = entry
        if isinstance(what, str):
            return _line(moment, what)
        name = type(what).__name__
        if isinstance(what, Changed | Gone):
            line = _line(moment, name, self._privacy.encode(what.obj))
            self._remember(what, line)
            return line
        line = _line(moment, name, _encode(what))
        if isinstance(what, Decision):
            self._decisions[what.uid] = line
        elif isinstance(what, BindingEnded) and what.status is not None:
            self._decisions.pop(what.uid, None)
        return line

    def _remember(self, what: Changed | Gone, line: bytes) -> None:
        obj, metadata = what.obj, what.obj.metadata
        lines, key = (self._nodes, metadata.name) if isinstance(obj, Node) else (self._objects, _key(obj))
        if isinstance(what, Changed):
            lines[key] = line
        else:
            lines.pop(key, None)
        if isinstance(obj, Pod) and (isinstance(what, Gone) or obj.spec.node_name):
            self._decisions.pop(metadata.uid, None)

    def opening(self, opening: Opening) -> Iterator[bytes]:
        """Yield the lines that a part begins with."""
        yield _encode(opening.header) + b"\n"
        # In the order in which they are looked at, so that they come into the same one again.
        yield from (self._nodes[name] for name in opening.nodes if name in self._nodes)
        yield from self._objects.values()
        yield from (self.line(entry) for entry in opening.before)
        yield from self._decisions.values()
        yield from (self.line(entry) for entry in opening.after)


def _key(obj: ApiObject) -> str:
    """Name an object as no other one that exists at the same time is named."""
    metadata = obj.metadata
    return metadata.uid or f"{type(obj).__name__} {metadata.namespace}/{metadata.name}"


def _line(moment: float, what: str, body: bytes = b"") -> bytes:
    """Write a line, by hand because there are ten for every pod."""
    with_body = b',"with":' + body if body else b""
    return b'{"at":%b,"what":"%b"%b}\n' % (_encode(moment), what.encode(), with_body)
