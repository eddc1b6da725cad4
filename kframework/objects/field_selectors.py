"""Field selectors, as the text that kubectl takes and as node selectors state them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kframework.objects.label_selectors import Matcher, Requirement, Selector, SelectorError, all_of

_WORD = re.compile(r"(?:\\.|[^,])+", re.DOTALL)
_TERM = re.compile(r"((?:(?!!?=).)+)(!=|==|=)((?:\\[\\,=]|[^\\,=])*)", re.DOTALL)


def parse_field_selector(text: str) -> Selector:
    r"""Read a selector as kubectl's `--field-selector` takes it (`spec.nodeName=x,status.phase!=Failed`).

    A field that the mapping lacks counts as empty. In values `\` escapes `,`, `=` and itself. Raises SelectorError.
    """
    requirements = []
    for term in _WORD.findall(text):
        parts = _TERM.fullmatch(term)
        if parts is None:
            raise SelectorError(f"field selector {text!r}: {term!r} is not <field>=<value>, == or !=")
        key, operator, value = parts.groups()
        value = re.sub(r"\\(.)", r"\1", value)
        requirements.append(Requirement(key, "!=" if operator == "!=" else "=", (value,)))
    return field_selector(requirements)


def field_selector(requirements: Iterable[Requirement]) -> Selector:
    """Compile requirements on fields, of the operators `=` and `!=`; a field that is absent counts as empty."""
    requirements = tuple(requirements)
    return Selector(requirements, all_of(map(_matcher, requirements)))


def _matcher(requirement: Requirement) -> Matcher:
    key, operator, (value,) = requirement
    if operator == "=":
        return lambda fields: fields.get(key, "") == value
    return lambda fields: fields.get(key, "") != value
