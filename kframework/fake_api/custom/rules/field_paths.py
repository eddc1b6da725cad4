"""The `fieldPath` of a rule: where in the value the fault lies."""

from __future__ import annotations

import re

from kframework.fake_api.schema.validator import Schema

_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\['(?P<quoted>(?:[^'\\]|\\[abfnrtv'\\])*)'\]")
_ESCAPE = re.compile(r"\\(.)")
_CHARACTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def read_field_path(text: str, schema: Schema) -> str | None:
    """Return a path such as `.spec['a.b']` as messages write it; None if it leads nowhere in the schema."""
    written, position = "", 0
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None:
            return None
        position = step.end()
        name = step["name"] or _ESCAPE.sub(lambda found: _CHARACTERS.get(found[1], found[1]), step["quoted"])
        properties, others = schema.get("properties"), schema.get("additionalProperties")
        if isinstance(properties, dict):
            inner, written = properties.get(name), f"{written}.{name}" if written else name
        else:
            inner, written = others, f"{written}[{name}]"
        if not isinstance(inner, dict):
            return None
        schema = inner
    return written
