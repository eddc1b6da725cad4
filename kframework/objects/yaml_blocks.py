"""YAML in blocks, as `kubectl get -o yaml` prints it: a block that has been read before is not read again.

Lines are told apart by their indentation alone, down to plain words and to blocks that have been read before. All else
is left to `yaml_documents`: a block that has more than plain mappings and lists in it, and the whole text where a block
makes no sense by itself, as where a quoted text goes on in the next one. So 25,000 objects of a few templates take a
third of the time, and share what they have in common.
"""

from __future__ import annotations

import re
from functools import cache
from sys import intern

import yaml

from kframework.objects import yaml_documents

#: What ends a line for YAML and not here, and what may stand at the beginning of a text only.
_BREAKS = "\r\x85\u2028\u2029\ufeff"
_NEXT_DOCUMENT = re.compile(r"^---\n", re.MULTILINE)
_MARKER = re.compile(r"^(?:---|\.\.\.)", re.MULTILINE)
_NOTHING = re.compile(r"(?:#[ -~]*\n|\n)*")
_START = re.compile(r"\n+( *)(- )?")
_WORD = re.compile(r""" ([A-Za-z0-9][\w./-]*|"[\w./:+-]*"|'[\w./:+-]*')\n""", re.ASCII)

#: So many blocks are remembered; then all are forgotten.
_REMEMBERED = 20_000


class _NotPlain(Exception):
    """There is more in a block than plain mappings and lists."""


def documents(text: str) -> list[object]:
    """Read the documents of a text; raises yaml.YAMLError where one that makes sense only as a whole may be fine."""
    if not text.endswith("\n") or any(each in text for each in _BREAKS):
        raise yaml.YAMLError("not lines as they are printed")
    first, *others = _NEXT_DOCUMENT.split(text)
    blocks = _Blocks()
    try:
        found = [blocks.document(each) for each in others]
        return found if _NOTHING.fullmatch(first) else [blocks.document(first), *found]
    except RecursionError:
        raise yaml.YAMLError("nested too deeply") from None


class _Blocks:
    """Reads blocks, and remembers them by their text and the indentation around them."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], object] = {}
        self._keys: dict[str | None, str] = {}

    def document(self, text: str) -> object:
        nothing = _NOTHING.match(text)
        assert nothing is not None
        if nothing.end() == len(text):
            return None
        try:
            return self._mapping(text[nothing.end() :], 0)
        except _NotPlain:
            found = [] if _MARKER.search(text) else list(yaml_documents.documents(text))
            if len(found) != 1:
                raise yaml.YAMLError("not one document") from None
            return found[0]

    def _mapping(self, text: str, indent: int) -> dict[str, object]:
        """Read a mapping whose keys are indented like this."""
        before, *parts = _entries(indent).split(text)
        if before or not parts or set(parts[::3]) != {" " * indent}:
            raise _NotPlain
        value, key = self._value, self._key
        return {key(name): value(body, indent) for name, body in zip(parts[1::3], parts[2::3], strict=True)}

    def _list(self, text: str, indent: int) -> list[object]:
        """Read a list whose dashes are indented like this."""
        before, *parts = _items(indent).split(text)
        if before or set(parts[::3]) != {" " * indent} or None in parts[1::3]:
            raise _NotPlain
        return [self._item(each, indent) for each in parts[2::3]]

    def _item(self, text: str, indent: int) -> object:
        try:
            return self._mapping(" " * (indent + 2) + text, indent + 2)
        except _NotPlain:
            return self._value(f" {text}", indent)

    def _key(self, name: str | None) -> str:
        key = self._keys.get(name)
        if key is None:
            if name is None or not yaml_documents.is_text(name):
                raise _NotPlain
            key = self._keys[name] = intern(name)
        return key

    def _value(self, text: str, indent: int) -> object:
        """Read what stands behind the colon of a key that is indented like this."""
        if text[0] == " " and (word := _WORD.fullmatch(text)) is not None:
            value = word[1]
            if value[0] in "'\"":
                return value[1:-1]
            if yaml_documents.is_text(value):
                return value
        key = indent, text
        if key not in self._known:
            if len(self._known) > _REMEMBERED:
                self._known.clear()
            self._known[key] = self._block(text, indent)
        return self._known[key]

    def _block(self, text: str, indent: int) -> object:
        start = _START.match(text)
        if start is not None:
            try:
                below, within = text[1:], len(start[1])
                if start[2] and within >= indent:
                    return self._list(below, within)
                return self._mapping(below, within)
            except _NotPlain:
                pass
        return _only(" " * indent + "key:" + text, "key")


@cache
def _entries(indent: int) -> re.Pattern[str]:
    """Return a pattern of the lines that are not indented further, but for dashes: their indentation, and the key."""
    return re.compile(rf"^( {{0,{indent}}})(?=[^ \n])(?!- )(?:([A-Za-z_][\w./-]*):(?=[ \n]))?", re.MULTILINE | re.ASCII)


@cache
def _items(indent: int) -> re.Pattern[str]:
    """Return a pattern of the lines that are not indented further: their indentation, and the dash."""
    return re.compile(rf"^( {{0,{indent}}})(?=[^ \n])(- (?=[^ \n]))?", re.MULTILINE)


def _only(text: str, key: str) -> object:
    """Read the value of the one entry of a text."""
    found = list(yaml_documents.documents(text))
    if len(found) != 1 or not isinstance(found[0], dict) or [*found[0]] != [key]:
        raise yaml.YAMLError("not an entry")
    return found[0][key]
