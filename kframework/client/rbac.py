"""Rules of role-based access control: which verbs on which resources they allow."""

from __future__ import annotations

import msgspec

from kframework.client.request_attributes import Attributes

GROUP = "rbac.authorization.k8s.io"

_EVERYTHING = "*"


class Rule(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What may be done to some resources of an API group, or, with `resource_names`, to some of them only.

    `non_resource_urls` are paths that are no object's; those of a rule in a Role grant nothing.
    """

    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")

    def allows(self, wanted: Attributes) -> bool:
        """Return whether the rule is about this, wherever it holds; "*" stands for all."""
        if not _among(wanted.verb, self.verbs):
            return False
        if not wanted.resource:
            return any(_covers(url, wanted.path) for url in self.non_resource_urls)
        return (
            _among(wanted.group, self.api_groups)
            and self._names_resource(wanted.resource)
            # What has no name yet, or is one of many, has none of these either.
            and (not self.resource_names or wanted.name in self.resource_names)
        )

    def _names_resource(self, resource: str) -> bool:
        """Return whether a resource is named; a subresource is beside its resource, or as that of all, `*/status`."""
        _, _, subresource = resource.partition("/")
        return _among(resource, self.resources) or (subresource != "" and f"*/{subresource}" in self.resources)


def _among(word: str, words: tuple[str, ...]) -> bool:
    return word in words or _EVERYTHING in words


def _covers(url: str, path: str) -> bool:
    return url == path or (url.endswith("*") and path.startswith(url.rstrip("*")))
