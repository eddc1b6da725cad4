"""Documents of YAML texts: what programs write in block style is read line by line, everything else by libyaml.

The reader of blocks reads an entry itself if its value is a simple scalar on the same line, or a block below it. It
gives the text of any other entry to libyaml. If that text is incomplete, because a quoted scalar goes on below, libyaml
refuses it; then the block around it is given to libyaml, and at last the whole text. So values do not depend on which
of the two reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import islice
from sys import intern

import yaml

from kframework.objects.yaml_loader import STRING, YamlLoader, resolve_tag

#: The parts of objects in which equal blocks are read once, as pods of one template have them, and how many are kept.
_PARTS, _MAX_KNOWN = ("spec", "status"), 20_000

#: A key, and a scalar, as the reader of blocks reads them.
_KEY = r"[A-Za-z_][A-Za-z0-9_./-]{0,255}"
_SCALAR = r"""(?:[A-Za-z0-9_/.]|--?[A-Za-z])[^ \n:#]*(?:[ :][^ \n:#]+)*|"[^"\\\n]*"|'[^'\n]*'|\{\}|\[\]"""

#: The plain scalars that begin with a letter and are no strings.
_WORDS: dict[str, bool | None] = {
    spelling: value
    for words, value in (("y yes true on", True), ("n no false off", False), ("null", None))
    for word in words.split()
    for spelling in (word, word.title(), word.upper())
}

#: Comments and empty lines at the beginning of a document, and the beginning of an anchor.
_HEAD = re.compile(r"(?:#.*\n|\n)*")
_ANCHOR = re.compile(r"(?:^|[\s\[{,:])&", re.MULTILINE)

#: The deepest indentation that the reader of blocks reads.
_MAX_INDENT = 64


def documents(text: str) -> Iterator[object]:
    """Read the documents of a text one by one; raises yaml.YAMLError."""
    count = 0
    try:
        for document in _read_blocks(text):
            yield document
            count += 1
    except (_NotBlocksError, RecursionError):
        try:
            yield from islice(yaml.load_all(text, YamlLoader), count, None)
        except RecursionError:
            raise yaml.YAMLError("nested too deeply") from None


class _NotBlocksError(Exception):
    """Raised for a text that libyaml has to read together with the text around it."""


def _read_blocks(text: str) -> Iterator[object]:
    """Read documents that are blocks; _NotBlocksError for others."""
    if not text.endswith("\n") or not text.replace("\n", "").isprintable() or ("&" in text and _ANCHOR.search(text)):
        raise _NotBlocksError
    reader = _BlockReader(_PartReader())
    for number, part in enumerate(f"\n{text[:-1]}".split("\n---\n")):
        block = _HEAD.sub("", f"{part}\n" if number else f"{part[1:]}\n", 1)
        if block:
            yield reader.read_block(block)
        elif number:
            yield None


class _BlockReader:
    """A reader of blocks that creates a value for each block."""

    def __init__(self, part_reader: _PartReader | None = None) -> None:
        self._part_reader = part_reader or self

    def read_block(self, text: str) -> object:
        """Read the lines of a mapping or of a list."""
        indent = len(text) - len(text.lstrip(" "))
        if indent > _MAX_INDENT:
            raise _NotBlocksError
        pad = " " * indent
        return self._read_list(text, pad) if text.startswith("- ", indent) else self._read_mapping(text, pad)

    def _read_mapping(self, text: str, pad: str) -> dict[str, object]:
        mapping: dict[str, object] = {}
        for key, scalar, other, below in _mapping_entries(pad).findall(text):
            if not key or key in _WORDS:
                raise _NotBlocksError
            if scalar and not below:
                value = _read_scalar(scalar)
            elif scalar or other:
                value = _load_entry(f"{pad}{key}: {scalar or other}\n{below}")
            elif not below:
                value = None
            else:
                reader = self._part_reader if key in _PARTS else self
                value = reader._read_below(below, f"{pad}{key}:\n", below)
            mapping[intern(key)] = value
        return mapping

    def _read_list(self, text: str, pad: str) -> list[object]:
        items: list[object] = []
        for item in _list_items(pad).finditer(text):
            scalar, other = item.groups()
            if scalar:
                items.append(_read_scalar(scalar))
            elif other:
                items.append(self._read_below(f"{pad}  {other}", f"{pad}- ", other))
            else:
                raise _NotBlocksError
        return items

    def _read_below(self, block: str, *entry: str) -> object:
        """Read a block, or let libyaml read the entry that has it."""
        try:
            return self.read_block(block)
        except _NotBlocksError:
            return _load_entry("".join(entry))


class _PartReader(_BlockReader):
    """A reader of blocks that creates one value for equal blocks."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[str, object] = {}

    def _read_below(self, block: str, *entry: str) -> object:
        if block not in self._known:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[block] = super()._read_below(block, *entry)
        return self._known[block]


@cache
def _mapping_entries(pad: str) -> re.Pattern[str]:
    """Match entries: the key, a scalar, any other text on the same line, and the lines below; or anything else."""
    return re.compile(rf"{pad}({_KEY}):(?: +({_SCALAR})| (.*))?\n((?:{pad}[ -].*\n|\n)*)|[^\0]+")


@cache
def _list_items(pad: str) -> re.Pattern[str]:
    """Match items: a scalar, or any other text with the lines below; or anything else."""
    return re.compile(rf"{pad}- (?:({_SCALAR})\n(?!{pad} |\n)|(.*\n(?:{pad} .*\n|\n)*))|[^\0]+")


def _load_entry(text: str) -> object:
    """Let libyaml read the value of an entry of a mapping, or of a list."""
    try:
        loaded = yaml.load(text, YamlLoader)
    except yaml.YAMLError:
        raise _NotBlocksError from None
    if not isinstance(loaded, dict | list) or len(loaded) != 1:
        raise _NotBlocksError
    (value,) = loaded.values() if isinstance(loaded, dict) else loaded
    return value


def _read_scalar(text: str) -> object:
    first = text[0]
    if first in "'\"":
        return text[1:-1]
    if first in "{[":
        return {} if first == "{" else []
    if first in "0123456789.":
        return text if resolve_tag(text) == STRING else _load_number(text)
    return _WORDS.get(text, text)


@lru_cache(maxsize=1024)
def _load_number(text: str) -> object:
    return _load_entry(f"- {text}")
