"""What may not change in a request for a certificate, by the path over which somebody changes it."""

from __future__ import annotations

from collections.abc import Iterator

from kframework.fake_api.schema.causes import Cause, duplicate, forbidden, invalid, required, unsupported
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import entries, text, value

_DECIDING = ("Approved", "Denied")
_LASTING = (*_DECIDING, "Failed")
_CONDITIONS = "status.conditions"


def certificate_request_causes(part: str, old: Data, new: Data) -> Iterator[Cause]:
    """Yield what is wrong with a change of the status or of the approval."""
    yield from _conditions(entries(new, _CONDITIONS))
    for name in _LASTING:
        was, told = _of_type(old, name), _of_type(new, name)
        if len(told) < len(was):
            yield forbidden(_CONDITIONS, f'updates may not remove a condition of type "{name}"')
        elif name in _DECIDING and part != "approval" and len(told) > len(was):
            yield forbidden(_CONDITIONS, f'updates may not add a condition of type "{name}"')
        elif name in _DECIDING and part != "approval" and told != was:
            yield forbidden(_CONDITIONS, f'updates may not modify a condition of type "{name}"')
    issued = text(old, "status.certificate")
    if issued and value(new, "status.certificate") != issued:
        yield forbidden("status.certificate", "updates may not modify existing certificate content")


def _conditions(conditions: list[Data]) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        place, name, status = f"{_CONDITIONS}[{index}]", text(condition, "type"), text(condition, "status")
        supported = ("True",) if name in _LASTING else ("False", "True", "Unknown")
        if not name:
            yield required(f"{place}.type")
        if not status:
            yield required(f"{place}.status")
        elif status not in supported:
            yield unsupported(f"{place}.status", status, supported)
        if name in _DECIDING and seen & ({*_DECIDING} - {name}):
            yield invalid(_CONDITIONS, name, "Approved and Denied conditions are mutually exclusive")
        if name in seen:
            yield duplicate(f"{place}.type", name)
        seen.add(name)


def _of_type(request: Data, name: str) -> list[Data]:
    return [each for each in entries(request, _CONDITIONS) if each.get("type") == name]
