"""Names of properties as rules write them."""

from __future__ import annotations

import re
from functools import lru_cache

#: Words of CEL, which no name may be.
_RESERVED = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)
_WRITTEN = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_NAME = re.compile(r"[a-zA-Z_./-][a-zA-Z0-9_./-]*", re.ASCII)
_ESCAPED = re.compile(r"__|[./-]")


def written_names(name: str) -> tuple[str, ...]:
    """Return the names by which rules find a property: words of CEL may be written as they are, too."""
    found = escaped(name)
    if found is None:
        return ()
    return (found, name) if name in _RESERVED else (found,)


@lru_cache(maxsize=4096)
def escaped(name: str) -> str | None:
    """Return the identifier that stands for a property, None if none does: the rules cannot name it."""
    if name in _RESERVED:
        return f"__{name}__"
    if _NAME.fullmatch(name) is None:
        return None
    return _ESCAPED.sub(lambda found: _WRITTEN[found[0]], name)
