"""The kinds of role-based access control, and the roles that a cluster has from its beginning.

Those are the ones that people bind: kube-apiserver has two dozen more, for components that are none here.
"""

from __future__ import annotations

from kframework.client.rbac import GROUP
from kframework.client.users import AUTHENTICATED, MASTERS
from kframework.objects import ApiObject, ObjectMeta, kind
from kframework.objects.meta import ApiStruct

#: A rule, a reference or a subject, as it is written; `authorization` reads it.
_Written = dict[str, object]

_API_VERSION = f"{GROUP}/v1"


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
_ROLES = {GROUP: "roles rolebindings"}


def _rules(resources: dict[str, str], verbs: tuple[str, ...]) -> tuple[_Written, ...]:
    return tuple(
        {"apiGroups": [group], "resources": names.split(), "verbs": list(verbs)} for group, names in resources.items()
    )


def _paths(*paths: str) -> _Written:
    return {"nonResourceURLs": list(paths), "verbs": ["get"]}


_EDIT = _rules(_WORK, _CHANGE) + _rules(_SECRET, _CHANGE)
_OPEN = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_EVERYTHING: _Written = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
_MYSELF = _rules({"authorization.k8s.io": "selfsubjectaccessreviews selfsubjectrulesreviews"}, ("create",)) + _rules(
    {"authentication.k8s.io": "selfsubjectreviews"}, ("create",)
)
#: The rules of each, and the groups that it is bound to.
_DEFAULT: dict[str, tuple[tuple[_Written, ...], tuple[str, ...]]] = {
    "cluster-admin": ((_EVERYTHING, {"nonResourceURLs": ["*"], "verbs": ["*"]}), (MASTERS,)),
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
            ref = RoleRef(api_group=GROUP, kind="ClusterRole", name=name)
            subjects = tuple(Subject(kind="Group", api_group=GROUP, name=group) for group in groups)
            made.append(ClusterRoleBinding(metadata=metadata, role_ref=ref, subjects=subjects))
    return made
