r"""The paths of printer columns: JSONPath, as far as CustomResourceDefinitions use it.

That is names (`.status.phase`, `['a.b']`, `a\.b`), places in a list (`[0]`, `[-1]`, `[*]`), and elements in which
something stands: `.status.conditions[?(@.type=="Ready")].status`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

#: Makes of one value those that stand below it.
Step = Callable[[object], Iterator[object]]

_STEP = re.compile(
    r"""
    \.?(?P<name>(?:\\.|[^.\[\]\\'"\s*?()])+)
    | \[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]
    | \[(?P<place>-?\d+)\]
    | (?P<every>\[\*\]|\.\*)
    | \[\?\(\s*@(?P<below>[^=!<>]+?)\s*==\s*(?P<value>"[^"]*"|'[^']*'|[^)]+?)\s*\)\]
    """,
    re.VERBOSE,
)


def json_path(written: str) -> Step:
    """Read a path; what it returns finds all that stands there, and nothing if the path is none that is understood."""
    steps: list[Step] = []
    rest = written.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    while rest:
        match = _STEP.match(rest)
        if match is None:
            return lambda document: iter(())
        steps.append(_step(match))
        rest = rest[match.end() :]
    return lambda document: _followed(document, steps)


def _followed(document: object, steps: list[Step]) -> Iterator[object]:
    found = [document]
    for step in steps:
        found = [below for each in found for below in step(each)]
    return iter(found)


def _step(match: re.Match[str]) -> Step:
    if match["name"] is not None:
        return _named(re.sub(r"\\(.)", r"\1", match["name"]))
    if match["quote"]:
        return _named(match["quoted"])
    if match["place"]:
        return _placed(int(match["place"]))
    if match["every"]:
        return _every
    return _equal(json_path(match["below"]), match["value"].strip("\"'"))


def _named(name: str) -> Step:
    return lambda value: iter([value[name]] if isinstance(value, dict) and name in value else [])


def _placed(place: int) -> Step:
    def step(value: object) -> Iterator[object]:
        if isinstance(value, list) and -len(value) <= place < len(value):
            yield value[place]

    return step


def _every(value: object) -> Iterator[object]:
    return iter(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())


def _equal(below: Step, wanted: str) -> Step:
    return lambda value: (
        element for element in (value if isinstance(value, list) else ()) if wanted in map(_text, below(element))
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
