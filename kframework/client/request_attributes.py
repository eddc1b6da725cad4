"""The attributes that an authorizer reads from a request, and the RBAC rules that allow it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from kframework.client.transport import Request

#: Subresources of a namespace, which are not kinds in it.
_NAMESPACE_SUBRESOURCES = ("status", "finalize")

_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
#: The same for requests without a name.
_COLLECTION_VERBS = {"get": "list", "delete": "deletecollection"}


class ResourcePath(NamedTuple):
    """The path of a kind, an object or a subresource: `/apis/GROUP/VERSION[/namespaces/NS]/PLURAL[/NAME[/PART]]`."""

    api_version: str
    namespace: str
    plural: str
    name: str
    subresource: str

    @classmethod
    def parse(cls, path: str) -> ResourcePath | None:
        """Split a path; None if it is not a resource's."""
        match path.strip("/").split("/"):
            case ["api", version, plural, *rest]:
                api_version = version
            case ["apis", group, version, plural, *rest]:
                api_version = f"{group}/{version}"
            case _:
                return None
        namespace = ""
        if plural == "namespaces" and len(rest) > 1 and rest[1] not in _NAMESPACE_SUBRESOURCES:
            namespace, plural, *rest = rest
        if len(rest) > 2:
            return None
        name, subresource = [*rest, "", ""][:2]
        return cls(api_version, namespace, plural, name, subresource)


class Attributes(NamedTuple):
    """A request as Kubernetes' authorizers see it; without a resource it is about `path`.

    `resource` includes the subresource after a slash, as in RBAC rules. A namespace counts as inside itself.
    """

    verb: str
    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @classmethod
    def from_request(cls, request: Request) -> Attributes:
        path = ResourcePath.parse(request.path)
        if path is None:
            return cls(request.method.lower(), path=request.path)
        query = dict(request.query)
        verb = _VERBS.get(request.method, "")
        if not path.name:
            verb = _COLLECTION_VERBS.get(verb, verb)
        if verb == "list" and is_flag_set(query, "watch"):
            verb = "watch"
        return cls(
            verb=verb,
            group=path.api_version.rpartition("/")[0],
            resource=f"{path.plural}/{path.subresource}" if path.subresource else path.plural,
            namespace=path.namespace or (path.name if path.plural == "namespaces" else ""),
            name=path.name or (_selected_name(query) if verb != "create" else ""),
        )


def is_flag_set(query: Mapping[str, str], name: str) -> bool:
    """Return whether a boolean query parameter is true, as in apimachinery: `watch`, `watch=` and `watch=yes` are."""
    return name in query and query[name].lower() not in ("0", "false")


def _selected_name(query: dict[str, str]) -> str:
    for term in query.get("fieldSelector", "").split(","):
        field, _, value = term.partition("=")
        if field.strip() == "metadata.name":
            return value.removeprefix("=").strip()
    return ""


RBAC_GROUP = "rbac.authorization.k8s.io"


class PolicyRule(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An RBAC rule: verbs on resources of API groups, or, with `resource_names`, on some of them.

    `non_resource_urls` are paths outside the resources; in a Role they grant nothing.
    """

    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")

    def allows(self, wanted: Attributes) -> bool:
        """Return whether the rule allows this, wherever it is bound; "*" allows all."""
        if not _includes(wanted.verb, self.verbs):
            return False
        if not wanted.resource:
            return any(_url_matches(url, wanted.path) for url in self.non_resource_urls)
        if not _includes(wanted.group, self.api_groups):
            return False
        _, slash, subresource = wanted.resource.partition("/")
        if not (_includes(wanted.resource, self.resources) or (slash and f"*/{subresource}" in self.resources)):
            return False
        # A request without a name, such as a list or a create, matches no resource name.
        return not self.resource_names or wanted.name in self.resource_names


def _includes(word: str, words: tuple[str, ...]) -> bool:
    return word in words or "*" in words


def _url_matches(url: str, path: str) -> bool:
    return url == path or (url.endswith("*") and path.startswith(url.rstrip("*")))
