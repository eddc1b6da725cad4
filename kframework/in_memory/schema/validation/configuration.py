"""Validation of Secrets, roles and their bindings, autoscalers, Ingresses and nodes."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address, ip_network

from kframework.client.request_attributes import RBAC_GROUP
from kframework.in_memory.schema.causes import Cause, forbidden, invalid, required, unsupported
from kframework.in_memory.store import Data
from kframework.objects.plain_data import entries, mapping, number, text, value
from kframework.objects.syntax import dns_label, dns_subdomain, port_name, port_number

#: The keys that a Secret of a type must have.
_SECRET_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_ACCOUNT_NAME = "kubernetes.io/service-account.name"


def secret_causes(secret: Data) -> Iterator[Cause]:
    kind, keys = text(secret, "type"), mapping(secret, "data").keys()
    yield from (required(f"data[{key}]") for key in _SECRET_KEYS.get(kind, ()) if key not in keys)
    if kind == "kubernetes.io/basic-auth" and not keys & {"username", "password"}:
        yield from (required(f"data[{key}]") for key in ("username", "password"))
    if kind == "kubernetes.io/service-account-token" and not mapping(secret, "metadata.annotations").get(_ACCOUNT_NAME):
        yield required(f"metadata.annotations[{_ACCOUNT_NAME}]")


def role_causes(role: Data, kind: str) -> Iterator[Cause]:
    for index, rule in enumerate(entries(role, "rules")):
        path, urls = f"rules[{index}]", rule.get("nonResourceURLs")
        if not rule.get("verbs"):
            yield required(f"{path}.verbs", "verbs must contain at least one value")
        if urls and kind == "Role":
            yield invalid(f"{path}.nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs")
        if urls and (rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames")):
            message = "rules cannot apply to both regular resources and non-resource URLs"
            yield invalid(f"{path}.nonResourceURLs", urls, message)
        for field, noun in (("apiGroups", "api group"), ("resources", "resource")):
            if not urls and not rule.get(field):
                yield required(f"{path}.{field}", f"resource rules must supply at least one {noun}")


def binding_causes(binding: Data, kind: str) -> Iterator[Cause]:
    role = mapping(binding, "roleRef")
    if (group := text(role, "apiGroup")) != RBAC_GROUP:
        yield unsupported("roleRef.apiGroup", group, (RBAC_GROUP,))
    kinds = ("Role", "ClusterRole") if kind == "RoleBinding" else ("ClusterRole",)
    if (role_kind := text(role, "kind")) not in kinds:
        yield unsupported("roleRef.kind", role_kind, kinds)
    if not text(role, "name"):
        yield required("roleRef.name")
    for index, subject in enumerate(entries(binding, "subjects")):
        path, group = f"subjects[{index}]", text(subject, "apiGroup")
        if not text(subject, "name"):
            yield required(f"{path}.name")
        match text(subject, "kind"):
            case "ServiceAccount":
                if group:
                    yield unsupported(f"{path}.apiGroup", group, ("",))
                if kind == "ClusterRoleBinding" and not text(subject, "namespace"):
                    yield required(f"{path}.namespace")
            case "User" | "Group":
                if group != RBAC_GROUP:
                    yield unsupported(f"{path}.apiGroup", group, (RBAC_GROUP,))
            case other:
                yield unsupported(f"{path}.kind", other, ("ServiceAccount", "User", "Group"))


#: The field of each type of metric.
_METRICS = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}


def autoscaler_causes(spec: Data) -> Iterator[Cause]:
    least, most, target = spec.get("minReplicas"), number(spec, "maxReplicas"), mapping(spec, "scaleTargetRef")
    if isinstance(least, int) and least < 1:
        yield invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if most == 0:
        yield required("spec.maxReplicas", "must be set and greater than 0")
    elif most < 0:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to 1")
    if isinstance(least, int) and most < least:
        yield invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    yield from (required(f"spec.scaleTargetRef.{field}") for field in ("kind", "name") if not text(target, field))
    api_version = text(target, "apiVersion")
    if "/" not in api_version and text(target, "kind") != "ReplicationController":
        yield invalid("spec.scaleTargetRef.apiVersion", api_version, "apiVersion must specify API group")
    for index, metric in enumerate(entries(spec, "metrics")):
        path, kind = f"spec.metrics[{index}]", text(metric, "type")
        if not kind:
            yield required(f"{path}.type", "must specify a metric source type")
        if kind not in _METRICS:
            yield unsupported(f"{path}.type", kind, sorted(_METRICS))
            continue
        if _METRICS[kind] not in metric:
            yield required(f"{path}.{_METRICS[kind]}", "must populate information for the given metric source")
        for other in sorted({*_METRICS.values()} & metric.keys() - {_METRICS[kind]}):
            yield forbidden(f"{path}.{other}", "must populate the given metric source only")


_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_WRONG_IN_PATHS = ("//", "/./", "/../", "%2f", "%2F")
_WRONG_PATH_ENDS = ("/..", "/.")


def ingress_causes(spec: Data) -> Iterator[Cause]:
    rules, default = entries(spec, "rules"), spec.get("defaultBackend")
    if not rules and default is None:
        yield invalid("spec", spec.get("rules"), "either `defaultBackend` or `rules` must be specified")
    if isinstance(default, dict):
        yield from _backend_causes(default, "spec.defaultBackend")
    for index, rule in enumerate(rules):
        path, host = f"spec.rules[{index}]", text(rule, "host")
        if _is_address(host):
            yield invalid(f"{path}.host", host, "must be a DNS name, not an IP address")
        if host and "*" not in host:
            yield from (invalid(f"{path}.host", host, each) for each in dns_subdomain(host))
        if isinstance(http := rule.get("http"), dict):
            if not http.get("paths"):
                yield required(f"{path}.http.paths")
            for position, each in enumerate(entries(http, "paths")):
                yield from _path_causes(each, f"{path}.http.paths[{position}]")
    if (class_name := spec.get("ingressClassName")) is not None:
        yield from (invalid("spec.ingressClassName", class_name, each) for each in dns_subdomain(str(class_name)))


def _path_causes(rule: Data, location: str) -> Iterator[Cause]:
    kind, path = rule.get("pathType"), text(rule, "path")
    if kind is None:
        yield required(f"{location}.pathType", "pathType must be specified")
        return
    if kind not in _PATH_TYPES:
        yield unsupported(f"{location}.pathType", kind, _PATH_TYPES)
    elif not path.startswith("/") and (path or kind != "ImplementationSpecific"):
        yield invalid(f"{location}.path", path, "must be an absolute path")
    if kind in ("Exact", "Prefix"):
        for part in _WRONG_IN_PATHS:
            if part in path:
                yield invalid(f"{location}.path", path, f"must not contain '{part}'")
        for end in _WRONG_PATH_ENDS:
            if path.endswith(end):
                yield invalid(f"{location}.path", path, f"cannot end with '{end}'")
    yield from _backend_causes(mapping(rule, "backend"), f"{location}.backend")


def _backend_causes(backend: Data, path: str) -> Iterator[Cause]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        yield invalid(path, "", "cannot set both resource and service backends")
    elif isinstance(resource, dict):
        yield from (required(f"{path}.resource.{field}") for field in ("kind", "name") if not text(resource, field))
    elif service is None:
        yield invalid(path, "", "resource or service backend is required")
    else:
        name, port_text, port = text(service, "name"), text(service, "port.name"), number(service, "port.number")
        if not name:
            yield required(f"{path}.service.name")
        else:
            yield from (invalid(f"{path}.service.name", name, each) for each in dns_label(name))
        if port_text and port:
            yield invalid(path, "", "cannot set both port name & port number")
        elif port_text:
            yield from (invalid(f"{path}.service.port.name", port_text, each) for each in port_name(port_text))
        elif port:
            yield from (invalid(f"{path}.service.port.number", port, each) for each in port_number(port))
        else:
            yield required(path, "port name or number is required")


def _is_address(host: str) -> bool:
    try:
        return bool(ip_address(host))
    except ValueError:
        return False


_CIDR_MESSAGE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def node_causes(spec: Data) -> Iterator[Cause]:
    """Yield problems of a node's addresses for pods."""
    ranges = value(spec, "podCIDRs")
    families: list[int] = []
    for index, each in enumerate(ranges if isinstance(ranges, list) else ()):
        try:
            families.append(ip_network(str(each), strict=False).version)
        except ValueError:
            yield invalid(f"spec.podCIDRs[{index}]", each, _CIDR_MESSAGE)
    if len(families) != len(set(families)):
        yield invalid("spec.podCIDRs", ranges, "may specify no more than one CIDR for each IP family")
