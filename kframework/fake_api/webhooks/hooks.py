"""The webhooks of a cluster, and which writes they review."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from kframework.fake_api.wire.documents import Data
from kframework.in_memory.schema.causes import Cause, invalid, required, too_many, unsupported
from kframework.in_memory.schema.validation.containers import name_causes
from kframework.objects.label_selectors import SelectorError, label_selector
from kframework.objects.meta import LabelSelector
from kframework.objects.plain_data import entries, mapping, number, text
from kframework.objects.syntax import dns_subdomain, qualified_name

_DEFAULT_TIMEOUT = 10
#: Resources that no webhook reviews; otherwise one that rejects everything could not be fixed.
_UNREVIEWED = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


class Write(NamedTuple):
    """A write as rules see it: CREATE, UPDATE or DELETE of a resource or subresource."""

    operation: str
    group: str
    version: str
    resource: str
    subresource: str
    namespaced: bool


class Webhook:
    """One webhook of a configuration."""

    def __init__(self, data: Data) -> None:
        self._data = data
        self.name: str = text(data, "name")
        #: Its URL; empty for a Service.
        self.url: str = text(data, "clientConfig.url")
        self.seconds: int = number(data, "timeoutSeconds") or _DEFAULT_TIMEOUT
        #: Whether writes succeed if it cannot be called.
        self.may_fail: bool = text(data, "failurePolicy") == "Ignore"
        #: Expressions that must be true for a review.
        self.conditions: list[Data] = entries(data, "matchConditions")
        #: Whether it reviews again after later webhooks changed the object.
        self.is_reinvoked: bool = text(data, "reinvocationPolicy") == "IfNeeded"

    @property
    def authorities(self) -> str:
        """Its CA certificates as PEM; empty for the machine's."""
        try:
            return base64.b64decode(text(self._data, "clientConfig.caBundle")).decode("ascii")
        except (binascii.Error, ValueError):
            return ""

    def matches(self, write: Write, labels: Mapping[str, str] | None, objects: list[Data]) -> bool:
        """Return whether it reviews a write; `labels` are those of the namespace, None without one."""
        if write.group == "admissionregistration.k8s.io" and write.resource in _UNREVIEWED:
            return False
        if not any(_rule_matches(rule, write) for rule in entries(self._data, "rules")):
            return False
        if labels is not None and not _selects(mapping(self._data, "namespaceSelector"), labels):
            return False
        selector = mapping(self._data, "objectSelector")
        labelled = [{key: str(value) for key, value in mapping(each, "metadata.labels").items()} for each in objects]
        return any(_selects(selector, each) for each in labelled) if objects else not selector


def list_webhooks(configurations: Iterator[Data]) -> list[Webhook]:
    ordered = sorted(configurations, key=lambda each: text(each, "metadata.name"))
    return [Webhook(hook) for each in ordered for hook in entries(each, "webhooks")]


def _rule_matches(rule: Data, write: Write) -> bool:
    scope = text(rule, "scope", "*")
    return (
        _contains(rule, "operations", write.operation)
        and _contains(rule, "apiGroups", write.group)
        and _contains(rule, "apiVersions", write.version)
        and (scope == "*" or (scope == "Namespaced") == write.namespaced)
        # For example `*`, `pods`, `pods/*`, `*/scale` and `*/*`.
        and any(
            resource in ("*", write.resource)
            and (subresource in ("*", write.subresource) if slash else not write.subresource)
            for resource, slash, subresource in (each.partition("/") for each in _texts(rule, "resources"))
        )
    )


def _contains(rule: Data, field: str, value: str) -> bool:
    return any(each in ("*", value) for each in _texts(rule, field))


def _texts(rule: Data, field: str) -> list[str]:
    values = rule.get(field)
    return [each for each in values if isinstance(each, str)] if isinstance(values, list) else []


def _selects(selector: Data, labels: Mapping[str, str]) -> bool:
    """Return whether a selector matches; an empty one matches all, an invalid one nothing."""
    if not selector:
        return True
    try:
        return label_selector(msgspec.convert(selector, LabelSelector)).matches(labels)
    except (SelectorError, msgspec.ValidationError):
        return False


_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_POLICIES = {"failurePolicy": ("Fail", "Ignore"), "matchPolicy": ("Equivalent", "Exact")}
_MAX_CONDITIONS = 64


def webhook_causes(data: Data) -> Iterator[Cause]:
    for index, hook in enumerate(entries(data, "webhooks")):
        location, name = f"webhooks[{index}]", text(hook, "name")
        if not name:
            yield required(f"{location}.name")
        elif messages := dns_subdomain(name):
            yield invalid(f"{location}.name", name, ",".join(messages))
        elif name.count(".") < 2:
            yield invalid(f"{location}.name", name, "should be a domain with at least three segments separated by dots")
        if not hook.get("admissionReviewVersions"):
            yield required(f"{location}.admissionReviewVersions", "must specify one of v1, v1beta1")
        for field, known in _POLICIES.items():
            if (value := hook.get(field)) is not None and value not in known:
                yield unsupported(f"{location}.{field}", value, known)
        effects = hook.get("sideEffects")
        if effects is None:
            yield required(f"{location}.sideEffects", f"must specify one of {', '.join(_SIDE_EFFECTS)}")
        elif effects not in _SIDE_EFFECTS:
            yield unsupported(f"{location}.sideEffects", effects, _SIDE_EFFECTS)
        seconds = hook.get("timeoutSeconds")
        if isinstance(seconds, int) and not 1 <= seconds <= 30:
            yield invalid(f"{location}.timeoutSeconds", seconds, "the timeout value must be between 1 and 30 seconds")
        client = mapping(hook, "clientConfig")
        if ("url" in client) == ("service" in client):
            yield required(f"{location}.clientConfig", "exactly one of url or service is required")
        yield from _match_condition_causes(entries(hook, "matchConditions"), f"{location}.matchConditions")


def _match_condition_causes(conditions: list[Data], path: str) -> Iterator[Cause]:
    if len(conditions) > _MAX_CONDITIONS:
        yield too_many(path, len(conditions), _MAX_CONDITIONS)
    if conditions:
        from kframework.fake_api.webhooks.match_conditions import condition_problem  # few webhooks have any
    names: set[str] = set()
    for index, condition in enumerate(conditions):
        location = f"{path}[{index}]"
        expression = text(condition, "expression").strip()
        if not expression:
            yield required(f"{location}.expression")
        elif message := condition_problem(expression):
            yield invalid(f"{location}.expression", expression, message)
        yield from name_causes(text(condition, "name"), f"{location}.name", qualified_name, names)
