"""The webhooks of a cluster, and which writes they review."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import entries, mapping, number, text
from kframework.objects.label_selectors import SelectorError, label_selector
from kframework.objects.meta import LabelSelector

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
