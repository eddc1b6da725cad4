"""Authorization: allow everything, as on a developer's machine, or decide by RBAC roles and their bindings.

Of a new cluster's roles, only those that people bind exist; kube-apiserver has two dozen more for its components.
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

_RawRule = dict[str, object]

_API_VERSION = f"{RBAC_GROUP}/v1"


class RoleRef(ApiStruct, frozen=True, kw_only=True):
    """The role that a binding grants."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class RbacSubject(ApiStruct, frozen=True, kw_only=True):
    """A user, group or service account that a binding grants a role."""

    kind: str = ""
    api_group: str = ""
    name: str = ""
    namespace: str = ""

    def matches(self, user: User, namespace: str) -> bool:
        """Return whether this is the user; a ServiceAccount without a namespace is in the binding's."""
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
    """The rights that a role grants in a namespace."""

    rules: tuple[_RawRule, ...] = ()


@kind(_API_VERSION, "clusterroles", namespaced=False)
class ClusterRole(ApiObject, frozen=True, kw_only=True):
    """The rights that a role grants wherever it is bound."""

    rules: tuple[_RawRule, ...] = ()


@kind(_API_VERSION, "rolebindings")
class RoleBinding(ApiObject, frozen=True, kw_only=True):
    """Grants a role in a namespace."""

    role_ref: RoleRef = RoleRef()
    subjects: tuple[RbacSubject, ...] = ()


@kind(_API_VERSION, "clusterrolebindings", namespaced=False)
class ClusterRoleBinding(ApiObject, frozen=True, kw_only=True):
    """Grants a role everywhere."""

    role_ref: RoleRef = RoleRef()
    subjects: tuple[RbacSubject, ...] = ()


RBAC_KINDS: tuple[type[ApiObject], ...] = (ClusterRole, ClusterRoleBinding, Role, RoleBinding)

_READ_VERBS = ("get", "list", "watch")
_WRITE_VERBS = (*_READ_VERBS, "create", "delete", "deletecollection", "patch", "update")
#: By group: resources that users work with, and those that only editors may read.
_WORKLOAD_RESOURCES = {
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
_SENSITIVE_RESOURCES = {"": "pods/attach pods/exec pods/portforward secrets serviceaccounts/token"}
_REVIEWS = {"authorization.k8s.io": "localsubjectaccessreviews"}
_ROLES = {RBAC_GROUP: "roles rolebindings"}


def _make_rules(resources: dict[str, str], verbs: tuple[str, ...]) -> tuple[_RawRule, ...]:
    return tuple(
        {"apiGroups": [group], "resources": names.split(), "verbs": list(verbs)} for group, names in resources.items()
    )


def _path_rule(*paths: str) -> _RawRule:
    return {"nonResourceURLs": list(paths), "verbs": ["get"]}


_EDIT_RULES = _make_rules(_WORKLOAD_RESOURCES, _WRITE_VERBS) + _make_rules(_SENSITIVE_RESOURCES, _WRITE_VERBS)
_PUBLIC_PATHS = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_EVERY_RULE: _RawRule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
_SELF_REVIEW_RULES = _make_rules(
    {"authorization.k8s.io": "selfsubjectaccessreviews selfsubjectrulesreviews"}, ("create",)
) + _make_rules({"authentication.k8s.io": "selfsubjectreviews"}, ("create",))
#: Rules of the default roles, and the groups they are bound to.
_DEFAULT_ROLES: dict[str, tuple[tuple[_RawRule, ...], tuple[str, ...]]] = {
    "cluster-admin": ((_EVERY_RULE, {"nonResourceURLs": ["*"], "verbs": ["*"]}), (MASTERS,)),
    "admin": (_EDIT_RULES + _make_rules(_ROLES, _WRITE_VERBS) + _make_rules(_REVIEWS, ("create",)), ()),
    "edit": (_EDIT_RULES, ()),
    "view": (_make_rules(_WORKLOAD_RESOURCES, _READ_VERBS), ()),
    "system:basic-user": (_SELF_REVIEW_RULES, (AUTHENTICATED,)),
    "system:discovery": (
        (_path_rule(*_PUBLIC_PATHS, "/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"),),
        (AUTHENTICATED,),
    ),
    "system:public-info-viewer": ((_path_rule(*_PUBLIC_PATHS),), (AUTHENTICATED, "system:unauthenticated")),
}


def default_roles() -> list[ApiObject]:
    roles: list[ApiObject] = []
    for name, (rules, groups) in _DEFAULT_ROLES.items():
        labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
        metadata = ObjectMeta(name=name, labels=labels)
        roles.append(ClusterRole(metadata=metadata, rules=rules))
        if groups:
            ref = RoleRef(api_group=RBAC_GROUP, kind="ClusterRole", name=name)
            subjects = tuple(RbacSubject(kind="Group", api_group=RBAC_GROUP, name=group) for group in groups)
            roles.append(ClusterRoleBinding(metadata=metadata, role_ref=ref, subjects=subjects))
    return roles


#: API servers escape what a browser could take for HTML.
_SANITIZED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Grant(NamedTuple):
    """A rule that applies in a namespace; everywhere if that is empty."""

    namespace: str
    rule: PolicyRule

    def allows(self, wanted: Attributes) -> bool:
        return self.namespace in ("", wanted.namespace) and self.rule.allows(wanted)


class RbacRules:
    """The RBAC rules in a set of objects, given as plain data; other kinds are ignored."""

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
        for binding in self._bindings:
            namespace = binding.metadata.namespace
            if any(subject.matches(user, namespace) for subject in binding.subjects):
                role = binding.role_ref
                role_namespace = namespace if role.kind == "Role" else ""
                for rule in self._roles.get((role.kind, role_namespace, role.name), ()):
                    yield Grant(namespace, rule)

    def check(self, user: User, wanted: Attributes) -> None:
        """Raise ClusterError 403, with an API server's message, unless the user may do this."""
        if MASTERS not in user.groups and not any(grant.allows(wanted) for grant in self.grants(user)):
            raise access_denied(user, wanted)


def access_denied(user: User, wanted: Attributes) -> ClusterError:
    denial = f"User {_quote(user.name)} cannot {wanted.verb}"
    if wanted.resource:
        plural, _, _ = wanted.resource.partition("/")
        resource = f"{plural}.{wanted.group}" if wanted.group else plural
        name = f' "{wanted.name}"' if wanted.name else ""
        scope = f"in the namespace {_quote(wanted.namespace)}" if wanted.namespace else "at the cluster scope"
        target = f"resource {_quote(wanted.resource)} in API group {_quote(wanted.group)} {scope}"
        message = f"{resource}{name} is forbidden: {denial} {target}"
    else:
        message = f"forbidden: {denial} path {_quote(wanted.path)}"
    return ClusterError(message, status=403, reason="Forbidden")


def _quote(text: str) -> str:
    return f'"{text.translate(_SANITIZED)}"'


class Authorizer(Protocol):
    """Decides what a user may do."""

    def check(self, user: User, wanted: Attributes) -> None:
        """Raise ClusterError 403 unless the user may do this."""

    def rules(self, user: User, namespace: str) -> list[PolicyRule]: ...


class AlwaysAllow(Authorizer):
    """Allows everyone everything."""

    def __init__(self, cluster: MemoryCluster) -> None:
        """Ignore the cluster."""

    def check(self, user: User, wanted: Attributes) -> None:
        """Allow it."""

    def rules(self, user: User, namespace: str) -> list[PolicyRule]:
        return [*_EVERYTHING]


_EVERYTHING = (PolicyRule(("*",), ("*",), ("*",)), PolicyRule(verbs=("*",), non_resource_urls=("*",)))


class RbacAuthorizer(Authorizer):
    """Decides by the roles and bindings that a cluster currently has."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._cached: RbacRules | None = None
        cluster.subscribe(RBAC_KINDS, self._invalidate)

    def check(self, user: User, wanted: Attributes) -> None:
        self._authorizer.check(user, wanted)

    def rules(self, user: User, namespace: str) -> list[PolicyRule]:
        if MASTERS in user.groups:
            return [*_EVERYTHING]
        return [grant.rule for grant in self._authorizer.grants(user) if grant.namespace in ("", namespace)]

    @property
    def _authorizer(self) -> RbacRules:
        if self._cached is None:
            objects = (each for kind in RBAC_KINDS for each in self._cluster.objects(kind))
            self._cached = RbacRules(msgspec.json.decode(encode(each)) for each in objects)
        return self._cached

    def _invalidate(self, change: Change) -> None:
        self._cached = None
