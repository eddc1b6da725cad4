"""Rules as text, before compilation: most definitions have none and need no CEL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kframework.in_memory.schema.causes import Cause, invalid, required, unsupported
from kframework.in_memory.schema.validator import Schema
from kframework.objects.plain_data import text

_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_NEWLINE = re.compile(r"[\n\r]")


def has_rules(schema: object) -> bool:
    if isinstance(schema, dict):
        return bool(schema.get("x-kubernetes-validations")) or any(map(has_rules, schema.values()))
    return isinstance(schema, list) and any(map(has_rules, schema))


def rule_spec_causes(rules: Sequence[Schema], schema: Schema, path: str) -> Iterator[Cause]:
    for index, rule in enumerate(rules):
        location = f"{path}[{index}]"
        expression, message = text(rule, "rule"), text(rule, "message")
        if not expression.strip():
            yield required(f"{location}.rule", "rule is not specified")
        elif message and not message.strip():
            yield invalid(f"{location}.message", message, "must be non-empty if specified")
        elif _NEWLINE.search(message.strip()):
            yield invalid(f"{location}.message", message, "must not contain line breaks")
        elif _NEWLINE.search(expression.strip()) and not message:
            yield required(f"{location}.message", "message must be specified if rule contains line breaks")
        if (message_expression := text(rule, "messageExpression")) and not message_expression.strip():
            yield required(f"{location}.messageExpression", "messageExpression must be non-empty if specified")
        reason, field = rule.get("reason"), rule.get("fieldPath")
        if reason is not None and reason not in _REASONS:
            yield unsupported(f"{location}.reason", reason, _REASONS)
        if isinstance(field, str) and field:
            if not field.strip():
                yield invalid(f"{location}.fieldPath", field, "must be non-empty if specified")
            if _NEWLINE.search(field):
                yield invalid(f"{location}.fieldPath", field, "must not contain line breaks")
            if parse_field_path(field, schema) is None:
                yield invalid(f"{location}.fieldPath", field, "must be a valid path")


_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\['(?P<quoted>(?:[^'\\]|\\[abfnrtv'\\])*)'\]")
_ESCAPE = re.compile(r"\\(.)")
_CHARACTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def parse_field_path(text: str, schema: Schema) -> str | None:
    """Format a path such as `.spec['a.b']` as messages do; None if the schema does not have it."""
    formatted, position = "", 0
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None:
            return None
        position = step.end()
        name = step["name"] or _ESCAPE.sub(lambda escape: _CHARACTERS.get(escape[1], escape[1]), step["quoted"])
        properties, others = schema.get("properties"), schema.get("additionalProperties")
        if isinstance(properties, dict):
            inner, formatted = properties.get(name), f"{formatted}.{name}" if formatted else name
        else:
            inner, formatted = others, f"{formatted}[{name}]"
        if not isinstance(inner, dict):
            return None
        schema = inner
    return formatted
