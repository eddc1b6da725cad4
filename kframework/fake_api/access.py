"""Who may do what: everybody everything, as on a machine of one's own, or what RBAC roles and their bindings say.

Of the roles of a new cluster it has those that people bind; kube-apiserver has two dozen more, for its components.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

import msgspec

from kframework.client.request_attributes import RBAC_GROUP, Attributes, PolicyRule
from kframework.client.transport import AUTHENTICATED, MASTERS, User, service_account
from kframework.errors import ClusterError
from kframework.in_memory.cluster import MemoryCluster
from kframework.in_memory.kind_store import Change
from kframework.objects import ApiObject, ObjectMeta, kind, kind_of
from kframework.objects.codec import convert, encode
from kframework.objects.meta import ApiStruct

#: A rule, a reference or a subject, as it is written; `authorization` reads it.
_Written = dict[str, object]

_API_VERSION = f"{RBAC_GROUP}/v1"


class RoleRef(ApiStruct, frozen=True, kw_only=True):
    """The role that a binding grants."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class Subject(ApiStruct, frozen=True, kw_only=True):
    """Whom a binding grants a role."""

    kind: str = ""
    api_group: str = ""
    name: str = ""
    namespace: str = ""

    def means(self, user: User, namespace: str) -> bool:
        """Return whether this is the user; an account without a namespace is one of its binding's."""
        match self.kind:
            case "User":
                return self.name == user.name
            case "Group":
                return self.name in user.groups
            case "ServiceAccount":
                return service_account(self.namespace or namespace, self.name).name == user.name
        return False


@kind(_API_VERSION, "roles")
class Role(ApiObject, frozen=True, kw_only=True):
    """What may be done within a namespace."""

    rules: tuple[_Written, ...] = ()


@kind(_API_VERSION, "clusterroles", namespaced=False)
class ClusterRole(ApiObject, frozen=True, kw_only=True):
    """What may be done wherever it is bound."""

    rules: tuple[_Written, ...] = ()


@kind(_API_VERSION, "rolebindings")
class RoleBinding(ApiObject, frozen=True, kw_only=True):
    """Grants a role within a namespace."""

    role_ref: RoleRef = RoleRef()
    subjects: tuple[Subject, ...] = ()


@kind(_API_VERSION, "clusterrolebindings", namespaced=False)
class ClusterRoleBinding(ApiObject, frozen=True, kw_only=True):
    """Grants a role everywhere."""

    role_ref: RoleRef = RoleRef()
    subjects: tuple[Subject, ...] = ()


#: What decides who may do what.
RBAC_KINDS: tuple[type[ApiObject], ...] = (ClusterRole, ClusterRoleBinding, Role, RoleBinding)

_SEE = ("get", "list", "watch")
_CHANGE = (*_SEE, "create", "delete", "deletecollection", "patch", "update")
#: What of each group its users work with, and what they may not see unless they may change it.
_WORK = {
    "": "configmaps endpoints events limitranges namespaces persistentvolumeclaims pods pods/log pods/status"
    " replicationcontrollers replicationcontrollers/scale resourcequotas serviceaccounts services",
    "apps": "controllerrevisions daemonsets deployments deployments/scale replicasets replicasets/scale statefulsets"
    " statefulsets/scale",
    "autoscaling": "horizontalpodautoscalers",
    "batch": "cronjobs jobs",
    "discovery.k8s.io": "endpointslices",
    "networking.k8s.io": "ingresses networkpolicies",
    "policy": "poddisruptionbudgets",
    "resource.k8s.io": "resourceclaims resourceclaimtemplates",
}
_SECRET = {"": "pods/attach pods/exec pods/portforward secrets serviceaccounts/token"}
_REVIEWS = {"authorization.k8s.io": "localsubjectaccessreviews"}
_ROLES = {RBAC_GROUP: "roles rolebindings"}


def _rules(resources: dict[str, str], verbs: tuple[str, ...]) -> tuple[_Written, ...]:
    return tuple(
        {"apiGroups": [group], "resources": names.split(), "verbs": list(verbs)} for group, names in resources.items()
    )


def _paths(*paths: str) -> _Written:
    return {"nonResourceURLs": list(paths), "verbs": ["get"]}


_EDIT = _rules(_WORK, _CHANGE) + _rules(_SECRET, _CHANGE)
_OPEN = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_EVERY_RULE: _Written = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
_MYSELF = _rules({"authorization.k8s.io": "selfsubjectaccessreviews selfsubjectrulesreviews"}, ("create",)) + _rules(
    {"authentication.k8s.io": "selfsubjectreviews"}, ("create",)
)
#: The rules of each, and the groups that it is bound to.
_DEFAULT: dict[str, tuple[tuple[_Written, ...], tuple[str, ...]]] = {
    "cluster-admin": ((_EVERY_RULE, {"nonResourceURLs": ["*"], "verbs": ["*"]}), (MASTERS,)),
    "admin": (_EDIT + _rules(_ROLES, _CHANGE) + _rules(_REVIEWS, ("create",)), ()),
    "edit": (_EDIT, ()),
    "view": (_rules(_WORK, _SEE), ()),
    "system:basic-user": (_MYSELF, (AUTHENTICATED,)),
    "system:discovery": (
        (_paths(*_OPEN, "/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"),),
        (AUTHENTICATED,),
    ),
    "system:public-info-viewer": ((_paths(*_OPEN),), (AUTHENTICATED, "system:unauthenticated")),
}


def default_roles() -> list[ApiObject]:
    """Make the roles of a new cluster and their bindings."""
    made: list[ApiObject] = []
    for name, (rules, groups) in _DEFAULT.items():
        labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
        metadata = ObjectMeta(name=name, labels=labels)
        made.append(ClusterRole(metadata=metadata, rules=rules))
        if groups:
            ref = RoleRef(api_group=RBAC_GROUP, kind="ClusterRole", name=name)
            subjects = tuple(Subject(kind="Group", api_group=RBAC_GROUP, name=group) for group in groups)
            made.append(ClusterRoleBinding(metadata=metadata, role_ref=ref, subjects=subjects))
    return made


#: API servers write no message that a browser could take for HTML.
_SANITIZED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Grant(NamedTuple):
    """A rule that holds in a namespace; in all, and outside of them, if that is empty."""

    namespace: str
    rule: PolicyRule

    def allows(self, wanted: Attributes) -> bool:
        """Return whether this is granted."""
        return self.namespace in ("", wanted.namespace) and self.rule.allows(wanted)


class RoleBasedAuthorizer:
    """Decides by the objects of RBAC among those that it is given, as plain data; others are passed over."""

    def __init__(self, objects: Iterable[Mapping[str, object]]) -> None:
        self._roles: dict[tuple[str, str, str], tuple[PolicyRule, ...]] = {}
        self._bindings: list[RoleBinding] = []
        for each in objects:
            if not str(each.get("apiVersion")).startswith(f"{RBAC_GROUP}/"):
                continue
            match each["kind"]:
                case "Role" | "ClusterRole" as name:
                    role = convert(each, kind_of(Role))
                    key = name, role.metadata.namespace, role.metadata.name
                    self._roles[key] = msgspec.convert(role.rules, tuple[PolicyRule, ...])
                case "RoleBinding" | "ClusterRoleBinding":
                    self._bindings.append(convert(each, kind_of(RoleBinding)))

    def grants(self, user: User) -> Iterator[Grant]:
        """Yield all that is granted to a user, and where it holds."""
        for binding in self._bindings:
            namespace = binding.metadata.namespace
            if any(subject.means(user, namespace) for subject in binding.subjects):
                role = binding.role_ref
                where = namespace if role.kind == "Role" else ""
                for rule in self._roles.get((role.kind, where, role.name), ()):
                    yield Grant(namespace, rule)

    def check(self, user: User, wanted: Attributes) -> None:
        """Raise ClusterError 403 if this is not granted to the user, in the words of an API server."""
        if MASTERS not in user.groups and not any(grant.allows(wanted) for grant in self.grants(user)):
            raise forbidden(user, wanted)


def forbidden(user: User, wanted: Attributes) -> ClusterError:
    """Say that the user has no right to this."""
    cannot = f"User {_quoted(user.name)} cannot {wanted.verb}"
    if wanted.resource:
        plural, _, _ = wanted.resource.partition("/")
        what = f"{plural}.{wanted.group}" if wanted.group else plural
        name = f' "{wanted.name}"' if wanted.name else ""
        where = f"in the namespace {_quoted(wanted.namespace)}" if wanted.namespace else "at the cluster scope"
        right = f"resource {_quoted(wanted.resource)} in API group {_quoted(wanted.group)} {where}"
        message = f"{what}{name} is forbidden: {cannot} {right}"
    else:
        message = f"forbidden: {cannot} path {_quoted(wanted.path)}"
    return ClusterError(message, status=403, reason="Forbidden")


def _quoted(text: str) -> str:
    return f'"{text.translate(_SANITIZED)}"'


class Authorizer(Protocol):
    """Decides what a user may do."""

    def check(self, user: User, wanted: Attributes) -> None:
        """Raise ClusterError 403 if the user may not."""
        ...

    def rules(self, user: User, namespace: str) -> list[PolicyRule]:
        """List what the user may do in a namespace."""
        ...


class AlwaysAllow(Authorizer):
    """Lets everybody do everything in a cluster."""

    def __init__(self, cluster: MemoryCluster) -> None:
        """Take no notice of the cluster."""

    def check(self, user: User, wanted: Attributes) -> None:
        """Let it be done."""

    def rules(self, user: User, namespace: str) -> list[PolicyRule]:
        return [*_EVERYTHING]


_EVERYTHING = (PolicyRule(("*",), ("*",), ("*",)), PolicyRule(verbs=("*",), non_resource_urls=("*",)))


class RoleBased(Authorizer):
    """Decides by the roles and bindings that a cluster has at the moment."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._known: RoleBasedAuthorizer | None = None
        cluster.subscribe(RBAC_KINDS, self._changed)

    def check(self, user: User, wanted: Attributes) -> None:
        self._authorizer.check(user, wanted)

    def rules(self, user: User, namespace: str) -> list[PolicyRule]:
        if MASTERS in user.groups:
            return [*_EVERYTHING]
        return [grant.rule for grant in self._authorizer.grants(user) if grant.namespace in ("", namespace)]

    @property
    def _authorizer(self) -> RoleBasedAuthorizer:
        if self._known is None:
            objects = (each for kind in RBAC_KINDS for each in self._cluster.objects(kind))
            self._known = RoleBasedAuthorizer(msgspec.json.decode(encode(each)) for each in objects)
        return self._known

    def _changed(self, change: Change) -> None:
        self._known = None
