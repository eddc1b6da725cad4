"""The fenced blocks of a Markdown document, and what is said of each in the comment above it.

`<!-- file: NAME -->` writes the block to a file of that name, `<!-- not run: REASON -->` passes it over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Block", "Command", "agrees", "blocks", "commands"]

_FENCE = re.compile(
    r"(?:^ *<!-- (?P<word>file|not run): (?P<rest>.+?) -->\n\n?)?"
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A fenced block: where it begins, its language, its text, and the file it is to be written to, if any."""

    line: int
    language: str
    text: str
    file: str | None = None


@dataclass(frozen=True)
class Command:
    """A command of a console block and its output; a line `...` matches any lines."""

    text: str
    output: tuple[str, ...]


def blocks(document: str) -> Iterator[Block]:
    """Yield the blocks of a document that are to be tried, in order."""
    for match in _FENCE.finditer(document):
        if match["word"] != "not run":
            indent = match["indent"]
            text = "".join(line.removeprefix(indent) for line in match["text"].splitlines(keepends=True))
            line = document.count("\n", 0, match.start("language")) + 1
            yield Block(line, match["language"], text, match["rest"])


def commands(block: Block) -> Iterator[Command]:
    """Yield the commands of a console block; each begins with `$ `, lines beginning with `> ` go on with it."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        first, *rest = part.splitlines()
        more = 0
        while more < len(rest) and rest[more].startswith("> "):
            more += 1
        text = "\n".join([first, *(line.removeprefix("> ") for line in rest[:more])])
        yield Command(text, tuple(rest[more:]))


def agrees(expected: tuple[str, ...], printed: tuple[str, ...]) -> bool:
    """Return whether a command printed what the document shows, spaces at the ends of lines aside."""
    if not expected:
        return not printed
    if expected[0].strip() == "...":
        return any(agrees(expected[1:], printed[skipped:]) for skipped in range(len(printed) + 1))
    return bool(printed) and expected[0].rstrip() == printed[0].rstrip() and agrees(expected[1:], printed[1:])
