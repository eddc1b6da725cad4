"""Regular expressions: CEL's `matches`, Kubernetes' `find` and `findAll`.

They use RE2, whose time is linear in the text, so that no user's selector can block the loop.
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

_MAX_MEMORY = 1 << 20  # of a compiled pattern


@lru_cache(maxsize=128)
def compile_pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern with RE2, with the interface of `re`; raises CelError."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    try:
        return cast("re.Pattern[str]", re2.compile(text, options))
    except re2.error as error:
        problem, colon, location = error.args[0].decode(errors="replace").partition(": ")
        raise CelError(f"error parsing regexp: {problem}{colon}`{location}`") from None


def _matches(text: object, regex: object) -> bool:
    if isinstance(text, str) and isinstance(regex, str):
        return compile_pattern(regex).search(text) is not None
    raise no_such_overload("matches", (text, regex))


def _find(text: str, regex: str) -> str:
    match = compile_pattern(regex).search(text)
    return text[slice(*match.span())] if match is not None else ""


def _find_all(text: str, regex: str, limit: int = -1) -> list[str]:
    """Find up to `limit` matches; as in Go, an empty match directly after another one is dropped."""
    matches: list[str] = []
    end = -1
    for match in compile_pattern(regex).finditer(text):
        if limit >= 0 and len(matches) >= limit:
            break
        start, stop = match.span()
        if start < stop or start != end:
            matches.append(text[start:stop])
        end = stop
    return matches


OVERLOADS = [
    *generic("matches", "string, string -> bool", apply=_matches),
    *generic_method("matches", "string, string -> bool", apply=_matches, cost=costs.matches),
    *method("find", "string, string -> string", apply=_find),
    *method("findAll", "string, string -> list(string)", "string, string, int -> list(string)", apply=_find_all),
]
