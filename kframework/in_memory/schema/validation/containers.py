"""Validation of containers: environment, mounts, ports, probes and security; `path` is that of the container."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

import msgspec

from kframework.in_memory.schema.causes import (
    Cause,
    duplicate,
    field_cause,
    forbidden,
    invalid,
    not_found,
    required,
    unsupported,
)
from kframework.in_memory.schema.validation.volumes import descending_path_causes
from kframework.in_memory.store import Data
from kframework.objects.plain_data import entries, mapping, text, value
from kframework.objects.pod import Resources
from kframework.objects.resource_rules import missing_resources_problems
from kframework.objects.syntax import config_key, dns_label, env_name, ip_address, port_name, port_number

PROTOCOLS = ("SCTP", "TCP", "UDP")
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_CHOICES = {
    "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
    "terminationMessagePolicy": ("FallbackToLogsOnError", "File"),
}
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_SCHEMES = ("HTTP", "HTTPS")
_PROBE_NUMBERS = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_SOURCES = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_SECCOMP_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")
_NOT_NEGATIVE = "must be greater than or equal to 0"
_IDS = ("runAsUser", "runAsGroup", "fsGroup")
#: The fields of its pod that a variable may show, besides single labels and annotations.
_POD_FIELDS = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName"),
    *("status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
)


def name_causes(
    name: str, path: str, check: Callable[[str], Iterable[str]], seen: set[str], *, is_needed: bool = True
) -> Iterator[Cause]:
    """Yield problems of a name by `check`, and whether it is in `seen`; adds it there."""
    if name:
        yield from (invalid(path, name, each) for each in check(name))
        if name in seen:
            yield duplicate(path, name)
        seen.add(name)
    elif is_needed:
        yield required(path)


def container_causes(container: Data, path: str, volumes: set[str], names: set[str]) -> Iterator[Cause]:
    """Yield problems of a container; `volumes` are known names, `names` those taken, to which its own is added."""
    yield from name_causes(text(container, "name"), f"{path}.name", dns_label, names)
    image = text(container, "image")
    if not image:
        yield required(f"{path}.image")
    elif image != image.strip():
        yield invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
    for field, supported in _CHOICES.items():
        if (chosen := container.get(field)) not in (None, *supported):
            yield unsupported(f"{path}.{field}", chosen, supported)
    yield from _port_causes(entries(container, "ports"), f"{path}.ports")
    yield from _environment_causes(entries(container, "env"), f"{path}.env")
    for index, source in enumerate(entries(container, "envFrom")):
        yield from _all_variables_causes(source, f"{path}.envFrom", index)
    for index, device in enumerate(entries(container, "volumeDevices")):
        yield from (
            required(f"{path}.volumeDevices[{index}].{field}")
            for field in ("name", "devicePath")
            if not text(device, field)
        )
    yield from _mount_causes(entries(container, "volumeMounts"), f"{path}.volumeMounts", volumes)
    resources = msgspec.convert(mapping(container, "resources"), Resources)
    yield from (field_cause(each, f"{path}.resources") for each in missing_resources_problems(resources))
    for probe in PROBES:
        if isinstance(container.get(probe), dict):
            yield from _probe_causes(mapping(container, probe), f"{path}.{probe}", probe)
    for hook, action in mapping(container, "lifecycle").items():
        if isinstance(action, dict):
            yield from _handler_causes(action, f"{path}.lifecycle.{hook}")
    security, location = mapping(container, "securityContext"), f"{path}.securityContext"
    yield from security_causes(security, location)
    if security.get("privileged") is True and security.get("allowPrivilegeEscalation") is False:
        message = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        yield invalid(location, security, message)


def security_causes(context: Data, path: str) -> Iterator[Cause]:
    """Yield problems of the security context of a pod or a container."""
    for field in _IDS:
        number = context.get(field)
        if isinstance(number, int) and not 0 <= number < 2**31:
            yield invalid(f"{path}.{field}", number, "must be between 0 and 2147483647, inclusive")
    profile = context.get("seccompProfile")
    if isinstance(profile, dict) and not (kind := text(profile, "type")):
        yield required(f"{path}.seccompProfile.type", "type is required when seccompProfile is set")
    elif isinstance(profile, dict) and kind not in _SECCOMP_TYPES:
        yield unsupported(f"{path}.seccompProfile.type", kind, _SECCOMP_TYPES)


def claim_name_causes(container: Data, path: str, known: Collection[str]) -> Iterator[Cause]:
    """Yield the claims of a container that are not among those of its pod."""
    names: set[tuple[str, str]] = set()
    for index, claim in enumerate(entries(container, "resources.claims")):
        name = text(claim, "name")
        if not name:
            yield required(f"{path}[{index}]")
        elif name not in known:
            yield not_found(f"{path}[{index}]", name)
        elif (name, text(claim, "request")) in names:
            yield duplicate(f"{path}[{index}]", name)
        names.add((name, text(claim, "request")))


def _probe_causes(probe: Data, path: str, kind: str) -> Iterator[Cause]:
    yield from _handler_causes(probe, path)
    for field in _PROBE_NUMBERS:
        if isinstance(number := probe.get(field), int) and number < 0:
            yield invalid(f"{path}.{field}", number, _NOT_NEGATIVE)
    if kind != "readinessProbe" and probe.get("successThreshold") not in (None, 1):
        yield invalid(f"{path}.successThreshold", probe["successThreshold"], "must be 1")


def _handler_causes(action: Data, path: str) -> Iterator[Cause]:
    handlers = [each for each in _HANDLERS if isinstance(action.get(each), dict)]
    if not handlers:
        yield required(path, "must specify a handler type")
    yield from (forbidden(f"{path}.{each}", "may not specify more than 1 handler type") for each in handlers[1:])
    for handler in handlers[:1]:
        request, location = mapping(action, handler), f"{path}.{handler}"
        if handler == "exec" and not request.get("command"):
            yield required(f"{location}.command")
        if handler in ("httpGet", "tcpSocket", "grpc"):
            port = request.get("port", 0)
            wrong = port_name(port) if isinstance(port, str) else port_number(port) if isinstance(port, int) else ()
            yield from (invalid(f"{location}.port", port, each) for each in wrong)
        if handler == "httpGet" and (scheme := request.get("scheme")) not in (None, *_SCHEMES):
            yield unsupported(f"{location}.scheme", scheme, _SCHEMES)


def _all_variables_causes(source: Data, path: str, index: int) -> Iterator[Cause]:
    references = [field for field in ("configMapRef", "secretRef") if isinstance(source.get(field), dict)]
    if not references:
        yield invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
    elif len(references) > 1:
        yield invalid(path, "", "may not have more than one field specified at a time")
    for field in references:
        if not text(source, f"{field}.name"):
            yield required(f"{path}[{index}].{field}.name")


def _mount_causes(mounts: list[Data], path: str, volumes: set[str]) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, mount in enumerate(mounts):
        location, name, at = f"{path}[{index}]", text(mount, "name"), text(mount, "mountPath")
        if not name:
            yield required(f"{location}.name")
        elif name not in volumes:
            yield not_found(f"{location}.name", name)
        if not at:
            yield required(f"{location}.mountPath")
        elif at in seen:
            yield invalid(f"{location}.mountPath", at, "must be unique")
        seen.add(at)
        yield from descending_path_causes(text(mount, "subPath"), f"{path}.subPath")
        if mount.get("subPath") and mount.get("subPathExpr"):
            message = "subPathExpr and subPath are mutually exclusive"
            yield invalid(f"{location}.subPathExpr", mount["subPathExpr"], message)
        if (propagation := mount.get("mountPropagation")) not in (None, *_PROPAGATIONS):
            yield unsupported(f"{path}.mountPropagation", propagation, _PROPAGATIONS)


def _port_causes(ports: list[Data], path: str) -> Iterator[Cause]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        location = f"{path}[{index}]"
        yield from name_causes(text(port, "name"), f"{location}.name", port_name, names, is_needed=False)
        if host := text(port, "hostIP"):
            yield from (invalid(f"{location}.hostIP", host, each) for each in ip_address(host))
        number = port.get("containerPort", 0)
        if not number:
            yield required(f"{location}.containerPort")


def _environment_causes(variables: list[Data], path: str) -> Iterator[Cause]:
    for index, variable in enumerate(variables):
        location, name = f"{path}[{index}]", text(variable, "name")
        if not name:
            yield required(f"{location}.name")
        else:
            yield from (invalid(f"{location}.name", name, each) for each in env_name(name))
        source = variable.get("valueFrom")
        if not isinstance(source, dict):
            continue
        if not source:
            yield invalid(f"{location}.valueFrom", "", _SOURCES)
        elif len(source) > 1:
            yield invalid(f"{location}.valueFrom", "", "may not have more than one field specified at a time")
        if variable.get("value"):
            yield invalid(f"{location}.valueFrom", "", "may not be specified when `value` is not empty")
        yield from _reference_causes(source, f"{location}.valueFrom")


def _reference_causes(source: Data, path: str) -> Iterator[Cause]:
    for field in ("configMapKeyRef", "secretKeyRef"):
        if isinstance(source.get(field), dict):
            key = text(source, f"{field}.key")
            yield from (
                required(f"{path}.{field}.{each}") for each in ("name", "key") if not value(source, f"{field}.{each}")
            )
            yield from (invalid(f"{path}.{field}.key", key, each) for each in (config_key(key) if key else ()))
    if isinstance(source.get("fieldRef"), dict):
        shown = text(source, "fieldRef.fieldPath")
        if not shown:
            yield required(f"{path}.fieldRef.fieldPath")
        elif shown not in _POD_FIELDS and not shown.startswith(("metadata.labels['", "metadata.annotations['")):
            message = f"error converting fieldPath: field label not supported: {shown}"
            yield invalid(f"{path}.fieldRef.fieldPath", shown, message)
