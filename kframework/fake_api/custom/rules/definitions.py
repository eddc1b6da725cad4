"""What keeps the rules of a definition, which are written as they should be, from being rules."""

from __future__ import annotations

from collections.abc import Iterator

from kframework.cel.errors import CelError
from kframework.fake_api.custom.rules.tree import Rule, compiled, explained
from kframework.fake_api.custom.rules.types import Fields, as_resource, declared_type, escaped
from kframework.fake_api.schema.causes import Cause, invalid
from kframework.fake_api.schema.validator import Schema
from kframework.fake_api.wire.plain_data import entries, mapping, text


def compiled_causes(schema: Schema, path: str) -> Iterator[Cause]:
    """Yield what does not compile in a schema without other faults, and what compares what cannot be compared."""
    yield from _of_schema(as_resource(schema), path, "selfType", {}, "")


def _of_schema(schema: Schema, path: str, name: str, fields: Fields, loose: str) -> Iterator[Cause]:
    """Yield the same of a part; `loose` is the part around it whose elements are not those of before."""
    if schema.get("x-kubernetes-embedded-resource") is True:
        schema = as_resource(schema)
    in_properties = path if schema.get("x-kubernetes-map-type") not in (None, "granular", "atomic") else loose
    for property, inner in mapping(schema, "properties").items():
        if isinstance(inner, dict):
            place = f"{path}.properties[{property}]"
            yield from _of_schema(inner, place, f"{name}.{escaped(property) or property}", fields, in_properties)
    if isinstance(others := schema.get("additionalProperties"), dict):
        yield from _of_schema(others, f"{path}.additionalProperties", f"{name}.@elem", fields, loose)
    if isinstance(items := schema.get("items"), dict):
        in_items = loose if schema.get("x-kubernetes-list-type") == "map" else path
        yield from _of_schema(items, f"{path}.items", f"{name}.@idx", fields, in_items)
    if written := entries(schema, "x-kubernetes-validations"):
        place = f"{path}.x-kubernetes-validations"
        type = declared_type(schema, name, fields)
        if type is None:
            said = "failed to construct type information for x-kubernetes-validations rules"
            yield Cause(place, f"Internal error: internal error: {said}", "InternalError")
            return
        for index, rule in enumerate(compiled(schema, written, type, fields)):
            yield from _of_rule(rule, f"{place}[{index}]", loose)


def _of_rule(rule: Rule, place: str, loose: str) -> Iterator[Cause]:
    if isinstance(rule.program, CelError):
        yield invalid(f"{place}.rule", _told(rule.written), explained(rule.program, "compilation failed: "))
    if isinstance(rule.message, CelError):
        said = explained(rule.message, "messageExpression compilation failed: ")
        yield invalid(f"{place}.messageExpression", _told(rule.written), said)
    if rule.is_transition:
        if loose:
            said = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {loose}"
            yield invalid(f"{place}.rule", text(rule.written, "rule"), said)
    elif isinstance(rule.program, CelError):
        return
    elif (optional := rule.written.get("optionalOldSelf")) is not None:
        yield invalid(f"{place}.optionalOldSelf", optional, "may not be set if oldSelf is not used in rule")


def _told(written: Schema) -> dict[str, object]:
    """Return a rule as messages show it: with all that it may say."""
    named = ("rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf")
    absent = {"reason": None, "optionalOldSelf": None}
    return {name[0].upper() + name[1:]: written.get(name, absent.get(name, "")) for name in named}
