"""Rules as they are written, before anything is compiled: most definitions have none, and need no CEL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kframework.fake_api.schema.causes import Cause, invalid, required, unsupported
from kframework.fake_api.schema.validator import Schema
from kframework.fake_api.wire.plain_data import text

_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_NEWLINE = re.compile(r"[\n\r]")


def has_rules(schema: object) -> bool:
    """Return whether anything in a schema has rules."""
    if isinstance(schema, dict):
        return bool(schema.get("x-kubernetes-validations")) or any(map(has_rules, schema.values()))
    return isinstance(schema, list) and any(map(has_rules, schema))


def written_causes(rules: Sequence[Schema], schema: Schema, path: str) -> Iterator[Cause]:
    """Yield what is wrong with how rules are written; `path` is that of their list."""
    for index, rule in enumerate(rules):
        place = f"{path}[{index}]"
        expression, message = text(rule, "rule"), text(rule, "message")
        if not expression.strip():
            yield required(f"{place}.rule", "rule is not specified")
        elif message and not message.strip():
            yield invalid(f"{place}.message", message, "must be non-empty if specified")
        elif _NEWLINE.search(message.strip()):
            yield invalid(f"{place}.message", message, "must not contain line breaks")
        elif _NEWLINE.search(expression.strip()) and not message:
            yield required(f"{place}.message", "message must be specified if rule contains line breaks")
        if (of_message := text(rule, "messageExpression")) and not of_message.strip():
            yield required(f"{place}.messageExpression", "messageExpression must be non-empty if specified")
        reason, field = rule.get("reason"), rule.get("fieldPath")
        if reason is not None and reason not in _REASONS:
            yield unsupported(f"{place}.reason", reason, _REASONS)
        if isinstance(field, str) and field:
            if not field.strip():
                yield invalid(f"{place}.fieldPath", field, "must be non-empty if specified")
            if _NEWLINE.search(field):
                yield invalid(f"{place}.fieldPath", field, "must not contain line breaks")
            if read_field_path(field, schema) is None:
                yield invalid(f"{place}.fieldPath", field, "must be a valid path")


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
