"""What a request is about, read from its path, as an authorizer sees it, and the rules of RBAC that allow it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from kframework.client.transport import Request

#: What stands behind a namespace's name and is no kind of object in it.
_OF_NAMESPACES = ("status", "finalize")

_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
#: The same where no object is named.
_VERBS_OF_MANY = {"get": "list", "delete": "deletecollection"}


class Path(NamedTuple):
    """The path of a kind, of an object or of its part: `/apis/GROUP/VERSION[/namespaces/NS]/PLURAL[/NAME[/PART]]`."""

    api_version: str
    namespace: str
    plural: str
    name: str
    subresource: str

    @classmethod
    def read(cls, path: str) -> Path | None:
        """Take a path apart; None if it is that of no object."""
        match path.strip("/").split("/"):
            case ["api", version, plural, *rest]:
                api_version = version
            case ["apis", group, version, plural, *rest]:
                api_version = f"{group}/{version}"
            case _:
                return None
        namespace = ""
        if plural == "namespaces" and len(rest) > 1 and rest[1] not in _OF_NAMESPACES:
            namespace, plural, *rest = rest
        if len(rest) > 2:
            return None
        name, subresource = [*rest, "", ""][:2]
        return cls(api_version, namespace, plural, name, subresource)


class Attributes(NamedTuple):
    """What a request wants, as Kubernetes' authorizers are asked it; without a resource it is about `path`.

    `resource` has its subresource behind a slash, as the rules of RBAC have. A namespace is in itself.
    """

    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @classmethod
    def of(cls, request: Request) -> Attributes:
        """Read them from a request."""
        path = Path.read(request.path)
        if path is None:
            return cls(request.method.lower(), path=request.path)
        query = dict(request.query)
        verb = _VERBS.get(request.method, "")
        if not path.name:
            verb = _VERBS_OF_MANY.get(verb, verb)
        if verb == "list" and flag(query, "watch"):
            verb = "watch"
        return cls(
            verb=verb,
            group=path.api_version.rpartition("/")[0],
            resource=f"{path.plural}/{path.subresource}" if path.subresource else path.plural,
            namespace=path.namespace or (path.name if path.plural == "namespaces" else ""),
            name=path.name or (_selected(query) if verb != "create" else ""),
        )


def flag(query: Mapping[str, str], name: str) -> bool:
    """Return whether a boolean of a query is true, as apimachinery reads it: `watch`, `watch=` and `watch=yes` are."""
    return name in query and query[name].lower() not in ("0", "false")


def _selected(query: dict[str, str]) -> str:
    """Return the only name that a field selector lets through, "" if it says none."""
    for term in query.get("fieldSelector", "").split(","):
        field, _, value = term.partition("=")
        if field.strip() == "metadata.name":
            return value.removeprefix("=").strip()
    return ""


GROUP = "rbac.authorization.k8s.io"


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
        if not _among(wanted.group, self.api_groups):
            return False
        _, slash, subresource = wanted.resource.partition("/")
        if not (_among(wanted.resource, self.resources) or (slash and f"*/{subresource}" in self.resources)):
            return False
        # What has no name yet, or is one of many, has none of these either.
        return not self.resource_names or wanted.name in self.resource_names


def _among(word: str, words: tuple[str, ...]) -> bool:
    return word in words or "*" in words


def _covers(url: str, path: str) -> bool:
    return url == path or (url.endswith("*") and path.startswith(url.rstrip("*")))
