"""What tables say about what is configured: data, accounts and limits, roles, webhooks and definitions."""

from __future__ import annotations

from kframework.fake_api.printers.layouts import Document, Fill, layout
from kframework.fake_api.wire.plain_data import entries, mapping, text

_CREATED = "Name, Created At=metadata.creationTimestamp"


def _data(document: Document, now: float) -> int:
    return len(mapping(document, "data")) + len(mapping(document, "binaryData"))


def _count(field: str) -> Fill:
    return lambda document, now: len(entries(document, field))


def _quota(limits: bool) -> Fill:
    """Show what is used of a quota: of limits, or of all else."""

    def fill(quota: Document, now: float) -> str:
        hard, used = mapping(quota, "status.hard"), mapping(quota, "status.used")
        names = sorted(name for name in hard if name.startswith("limits.") is limits)
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return fill


# -- roles -------------------------------------------------------------------------------------------------------------


def _role(binding: Document, now: float) -> str:
    return f"{text(binding, 'roleRef.kind')}/{text(binding, 'roleRef.name')}"


def _subjects(kind: str) -> Fill:
    def fill(binding: Document, now: float) -> str:
        meant = [each for each in entries(binding, "subjects") if text(each, "kind") == kind]
        return ", ".join("/".join(filter(None, (text(each, "namespace"), text(each, "name")))) for each in meant)

    return fill


_BINDING = layout(
    "Name, Role, Age, (Users), (Groups), (ServiceAccounts)",
    {
        "Role": _role,
        **{"Users": _subjects("User"), "Groups": _subjects("Group"), "ServiceAccounts": _subjects("ServiceAccount")},
    },
)


# -- the API itself ----------------------------------------------------------------------------------------------------


def _condition(request: Document, now: float) -> str:
    """Say what became of a request for a certificate."""
    said = [text(each, "type") for each in entries(request, "status.conditions")]
    issued = ["Issued"] if text(request, "status.certificate") else []
    return ",".join([*said, *issued]) or "Pending"


def _service(served: Document, now: float) -> str:
    name = text(served, "spec.service.name")
    return f"{text(served, 'spec.service.namespace')}/{name}" if name else "Local"


def _available(served: Document, now: float) -> str:
    for each in entries(served, "status.conditions"):
        if text(each, "type") == "Available":
            state = text(each, "status")
            return state if state == "True" else f"{state} ({text(each, 'reason')})"
    return "Unknown"


_WEBHOOKS = layout("Name, Webhooks:integer, Age", {"Webhooks": _count("webhooks")})

#: By apiVersion and kind.
CONFIGURATION = {
    ("v1", "ConfigMap"): layout("Name, Data:integer, Age", {"Data": _data}),
    ("v1", "Secret"): layout("Name, Type=type, Data:integer, Age", {"Data": _data}),
    ("v1", "ServiceAccount"): layout("Name, Secrets:integer, Age", {"Secrets": _count("secrets")}),
    ("v1", "LimitRange"): layout(_CREATED),
    ("v1", "ResourceQuota"): layout("Name, Request, Limit, Age", {"Request": _quota(False), "Limit": _quota(True)}),
    ("rbac.authorization.k8s.io/v1", "Role"): layout(_CREATED),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): layout(_CREATED),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): _BINDING,
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"): _BINDING,
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"): layout(_CREATED),
    ("apiregistration.k8s.io/v1", "APIService"): layout(
        "Name, Service, Available, Age", {"Service": _service, "Available": _available}
    ),
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"): _WEBHOOKS,
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"): _WEBHOOKS,
    ("certificates.k8s.io/v1", "CertificateSigningRequest"): layout(
        "Name, Age, SignerName=spec.signerName, Requestor=spec.username, "
        "RequestedDuration=spec.expirationSeconds|<none>, Condition",
        {"Condition": _condition},
    ),
    ("node.k8s.io/v1", "RuntimeClass"): layout("Name, Handler=handler, Age"),
}
