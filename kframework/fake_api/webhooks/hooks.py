"""The webhooks that a cluster has, and which of them want to see a write."""

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

#: How long a webhook may take that does not say it, in seconds.
_SECONDS = 10
#: What webhooks are not asked about, or nobody could mend one that refuses everything.
_SPARED = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


class Write(NamedTuple):
    """A write as rules see it: CREATE, UPDATE or DELETE of a resource, or of a subresource of it."""

    operation: str
    group: str
    version: str
    resource: str
    subresource: str
    namespaced: bool


class Webhook:
    """One webhook of a configuration, as its author wrote it."""

    def __init__(self, said: Data) -> None:
        self._said = said
        self.name: str = text(said, "name")
        #: Where it is; empty if it is a Service.
        self.url: str = text(said, "clientConfig.url")
        #: How long it may take.
        self.seconds: int = number(said, "timeoutSeconds") or _SECONDS
        #: Whether a write goes on where it cannot be asked.
        self.may_fail: bool = text(said, "failurePolicy") == "Ignore"
        #: Expressions that have to be true for it to be asked.
        self.conditions: list[Data] = entries(said, "matchConditions")
        #: Whether it wants to see what others changed after it.
        self.is_asked_again: bool = text(said, "reinvocationPolicy") == "IfNeeded"

    @property
    def authorities(self) -> str:
        """The certificates that vouch for it, as PEM; empty for those of the machine."""
        try:
            return base64.b64decode(text(self._said, "clientConfig.caBundle")).decode("ascii")
        except (binascii.Error, ValueError):
            return ""

    def wants(self, write: Write, labels: Mapping[str, str] | None, objects: list[Data]) -> bool:
        """Return whether it is to be asked; `labels` are those of the namespace, None where there is none."""
        if write.group == "admissionregistration.k8s.io" and write.resource in _SPARED:
            return False
        if not any(_covers(rule, write) for rule in entries(self._said, "rules")):
            return False
        if labels is not None and not _selects(mapping(self._said, "namespaceSelector"), labels):
            return False
        chosen = mapping(self._said, "objectSelector")
        labelled = [{key: str(value) for key, value in mapping(each, "metadata.labels").items()} for each in objects]
        return any(_selects(chosen, each) for each in labelled) if objects else not chosen


def webhooks_in(configurations: Iterator[Data]) -> list[Webhook]:
    """List the webhooks of configurations, these by their names."""
    ordered = sorted(configurations, key=lambda each: text(each, "metadata.name"))
    return [Webhook(hook) for each in ordered for hook in entries(each, "webhooks")]


def _covers(rule: Data, write: Write) -> bool:
    scope = text(rule, "scope", "*")
    return (
        _lists(rule, "operations", write.operation)
        and _lists(rule, "apiGroups", write.group)
        and _lists(rule, "apiVersions", write.version)
        and (scope == "*" or (scope == "Namespaced") == write.namespaced)
        # As in `*`, `pods`, `pods/*`, `*/scale` and `*/*`.
        and any(
            resource in ("*", write.resource)
            and (subresource in ("*", write.subresource) if slash else not write.subresource)
            for resource, slash, subresource in (each.partition("/") for each in _texts(rule, "resources"))
        )
    )


def _lists(rule: Data, field: str, value: str) -> bool:
    return any(each in ("*", value) for each in _texts(rule, field))


def _texts(rule: Data, field: str) -> list[str]:
    found = rule.get(field)
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def _selects(selector: Data, labels: Mapping[str, str]) -> bool:
    """Return whether a selector matches; an empty one matches all, one that makes no sense nothing."""
    if not selector:
        return True
    try:
        return label_selector(msgspec.convert(selector, LabelSelector)).matches(labels)
    except (SelectorError, msgspec.ValidationError):
        return False
