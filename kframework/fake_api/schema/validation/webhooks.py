"""What is wrong with the webhooks of a configuration."""

from __future__ import annotations

from collections.abc import Iterator

from kframework.fake_api.schema.causes import Cause, duplicate, invalid, required, too_many, unsupported
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import entries, mapping, text
from kframework.objects.syntax import dns_subdomain, qualified_name

_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_POLICIES = {"failurePolicy": ("Fail", "Ignore"), "matchPolicy": ("Equivalent", "Exact")}
_MOST_CONDITIONS = 64


def webhook_causes(data: Data) -> Iterator[Cause]:
    """Yield what is wrong with a configuration of mutating or validating webhooks."""
    for index, hook in enumerate(entries(data, "webhooks")):
        place = f"webhooks[{index}]"
        yield from _of_hook(hook, place)
        yield from _of_conditions(entries(hook, "matchConditions"), f"{place}.matchConditions")


def _of_hook(hook: Data, place: str) -> Iterator[Cause]:
    yield from _of_name(text(hook, "name"), f"{place}.name")
    if not hook.get("admissionReviewVersions"):
        yield required(f"{place}.admissionReviewVersions", "must specify one of v1, v1beta1")
    for field, known in _POLICIES.items():
        if (said := hook.get(field)) is not None and said not in known:
            yield unsupported(f"{place}.{field}", said, known)
    effects = hook.get("sideEffects")
    if effects is None:
        yield required(f"{place}.sideEffects", f"must specify one of {', '.join(_SIDE_EFFECTS)}")
    elif effects not in _SIDE_EFFECTS:
        yield unsupported(f"{place}.sideEffects", effects, _SIDE_EFFECTS)
    seconds = hook.get("timeoutSeconds")
    if isinstance(seconds, int) and not 1 <= seconds <= 30:
        yield invalid(f"{place}.timeoutSeconds", seconds, "the timeout value must be between 1 and 30 seconds")
    client = mapping(hook, "clientConfig")
    if ("url" in client) == ("service" in client):
        yield required(f"{place}.clientConfig", "exactly one of url or service is required")


def _of_name(name: str, place: str) -> Iterator[Cause]:
    if not name:
        yield required(place)
    elif messages := dns_subdomain(name):
        yield invalid(place, name, ",".join(messages))
    elif name.count(".") < 2:
        yield invalid(place, name, "should be a domain with at least three segments separated by dots")


def _of_conditions(conditions: list[Data], path: str) -> Iterator[Cause]:
    if len(conditions) > _MOST_CONDITIONS:
        yield too_many(path, len(conditions), _MOST_CONDITIONS)
    names: set[str] = set()
    for index, condition in enumerate(conditions):
        place, name = f"{path}[{index}]", text(condition, "name")
        expression = text(condition, "expression").strip()
        if not expression:
            yield required(f"{place}.expression")
        elif said := _problem(expression):
            yield invalid(f"{place}.expression", expression, said)
        if not name:
            yield required(f"{place}.name")
        yield from (invalid(f"{place}.name", name, each) for each in (qualified_name(name) if name else ()))
        if name and name in names:
            yield duplicate(f"{place}.name", name)
        names.add(name)


def _problem(expression: str) -> str:
    from kframework.fake_api.webhooks.match_conditions import problem  # few webhooks have any, and it needs CEL

    return problem(expression)
