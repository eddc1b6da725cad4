"""Regular expressions: `matches` of CEL itself, `find` and `findAll` of Kubernetes, in the syntax of RE2.

They are RE2's own: it takes time linear in the text, so that no selector of a user can hold up the loop.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import cast

import re2

from kframework.cel import costs
from kframework.cel.errors import CelError
from kframework.cel.functions import generic, generic_method, method
from kframework.cel.values import no_such_overload

_MOST_MEMORY = 1 << 20  # of a pattern, compiled


@lru_cache(maxsize=128)
def pattern(text: str) -> re.Pattern[str]:
    """Return a compiled pattern, which is used as one of `re`; raises CelError for one that RE2 does not take."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_MEMORY
    try:
        return cast("re.Pattern[str]", re2.compile(text, options))
    except re2.error as error:
        what, colon, where = error.args[0].decode(errors="replace").partition(": ")
        raise CelError(f"error parsing regexp: {what}{colon}`{where}`") from None


def _matches(text: object, regex: object) -> bool:
    if isinstance(text, str) and isinstance(regex, str):
        return pattern(regex).search(text) is not None
    raise no_such_overload("matches", (text, regex))


def _find(text: str, regex: str) -> str:
    found = pattern(regex).search(text)
    return text[slice(*found.span())] if found is not None else ""


def _find_all(text: str, regex: str, most: int = -1) -> list[str]:
    """Find all that match, `most` of them; as in Go, nothing is found right behind a match."""
    found: list[str] = []
    end = -1
    for match in pattern(regex).finditer(text):
        if most >= 0 and len(found) >= most:
            break
        start, stop = match.span()
        if start < stop or start != end:
            found.append(text[start:stop])
        end = stop
    return found


OVERLOADS = [
    *generic("matches", "string, string -> bool", apply=_matches),
    *generic_method("matches", "string, string -> bool", apply=_matches, cost=costs.matches),
    *method("find", "string, string -> string", apply=_find),
    *method("findAll", "string, string -> list(string)", "string, string, int -> list(string)", apply=_find_all),
]
