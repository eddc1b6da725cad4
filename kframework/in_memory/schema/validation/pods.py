"""Validation of metadata, pod specs, and pod templates; `path` is the path of a spec."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from kframework.in_memory.schema.causes import (
    Cause,
    duplicate,
    field_cause,
    forbidden,
    invalid,
    not_found,
    required,
    too_long,
    unsupported,
)
from kframework.in_memory.store import Data
from kframework.objects.identity import cached_by_identity
from kframework.objects.label_selectors import label_selector
from kframework.objects.meta import LabelSelector
from kframework.objects.plain_data import entries, mapping, text, value
from kframework.objects.pod import PodSpec, Resources
from kframework.objects.resource_rules import missing_resources_problems
from kframework.objects.scheduling_rules import pod_spec_problems
from kframework.objects.syntax import dns_label, env_name, label_value, port_name, qualified_name

_CHOICES = {
    "dnsPolicy": ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"),
}
_PULLS = ("Always", "IfNotPresent", "Never")
_HANDLERS = frozenset({"exec", "httpGet", "tcpSocket", "grpc"})
_SOURCES = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
PROTOCOLS = ("SCTP", "TCP", "UDP")
_SOURCE_FIELDS = {
    "configMap": "name",
    "hostPath": "path",
    "persistentVolumeClaim": "claimName",
    "secret": "secretName",
}


@cached_by_identity
def pod_causes(spec: Data) -> list[Cause]:
    """List problems of a pod spec, cached because specs are never modified."""
    return list(spec_causes(spec, "spec"))


def spec_causes(spec: Data, path: str, claims: Iterable[Data] = ()) -> Iterator[Cause]:
    """Yield problems of a pod spec; pods of a StatefulSet have volumes for the templates of its `claims`, too."""
    volumes = entries(spec, "volumes")
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        location = f"{path}.volumes[{index}]"
        yield from name_causes(text(volume, "name"), f"{location}.name", dns_label, seen)
        sources = [field for field in volume if field != "name"]
        for extra in sources[1:]:
            yield forbidden(f"{location}.{extra}", "may not specify more than 1 volume type")
        for source in sources[:1]:
            if (needed := _SOURCE_FIELDS.get(source)) and not value(volume, f"{source}.{needed}"):
                yield required(f"{location}.{source}.{needed}")
    if not spec.get("containers"):
        yield required(f"{path}.containers")
    known = {text(volume, "name") for volume in volumes} | {text(claim, "metadata.name") for claim in claims}
    names: set[str] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(entries(spec, field)):
            yield from container_causes(container, f"{path}.{field}[{index}]", known, names)
    for field, supported in _CHOICES.items():
        if field in spec and spec[field] not in supported:
            yield unsupported(f"{path}.{field}", spec[field], supported)
    yield from (field_cause(problem, path) for problem in pod_spec_problems(msgspec.convert(spec, PodSpec)))


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
    if (pull := container.get("imagePullPolicy")) not in (None, *_PULLS):
        yield unsupported(f"{path}.imagePullPolicy", pull, _PULLS)
    yield from _port_causes(entries(container, "ports"), f"{path}.ports")
    yield from _environment_causes(entries(container, "env"), f"{path}.env")
    seen: set[str] = set()
    for index, mount in enumerate(entries(container, "volumeMounts")):
        location, name, at = f"{path}.volumeMounts[{index}]", text(mount, "name"), text(mount, "mountPath")
        if not name:
            yield required(f"{location}.name")
        elif name not in volumes:
            yield not_found(f"{location}.name", name)
        if not at:
            yield required(f"{location}.mountPath")
        elif at in seen:
            yield invalid(f"{location}.mountPath", at, "must be unique")
        seen.add(at)
    resources = msgspec.convert(mapping(container, "resources"), Resources)
    yield from (field_cause(each, f"{path}.resources") for each in missing_resources_problems(resources))
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(handler := container.get(probe), dict) and not handler.keys() & _HANDLERS:
            yield required(f"{path}.{probe}", "must specify a handler type")


def _port_causes(ports: list[Data], path: str) -> Iterator[Cause]:
    names: set[str] = set()
    for index, port in enumerate(ports):
        location = f"{path}[{index}]"
        yield from name_causes(text(port, "name"), f"{location}.name", port_name, names, is_needed=False)
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


#: Limit of all annotations of an object, in bytes.
_MAX_ANNOTATION_BYTES = 256 * 1024
#: Kinds whose names are DNS labels.
_DNS_LABEL_KINDS = ("Namespace", "Service")


def metadata_causes(metadata: Data, kind: str) -> Iterator[Cause]:
    name = text(metadata, "name")
    if kind in _DNS_LABEL_KINDS and name:
        yield from (invalid("metadata.name", name, each) for each in dns_label(name))
    yield from labels_causes(metadata, "")


def labels_causes(metadata: Data, path: str) -> Iterator[Cause]:
    """Yield problems of labels and annotations; `path` is the prefix of `metadata`."""
    for key, label in mapping(metadata, "labels").items():
        yield from (invalid(f"{path}metadata.labels", key, each) for each in qualified_name(key))
        yield from (invalid(f"{path}metadata.labels", label, each) for each in label_value(str(label)))
    annotations = mapping(metadata, "annotations")
    for key in annotations:
        yield from (invalid(f"{path}metadata.annotations", key, each) for each in qualified_name(key.lower()))
    if sum(len(key) + len(str(value)) for key, value in annotations.items()) > _MAX_ANNOTATION_BYTES:
        yield too_long(f"{path}metadata.annotations", _MAX_ANNOTATION_BYTES)


_MISMATCH = "`selector` does not match template `labels`"


def workload_causes(data: Data, kind: str) -> Iterator[Cause]:
    spec = mapping(data, "spec")
    template = mapping(spec, "template")
    selector = spec.get("selector")
    if not isinstance(selector, dict):
        yield required("spec.selector")
    elif not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield invalid("spec.selector", selector, f"empty selector is invalid for {kind.lower()}")
    elif not _selects(selector, mapping(template, "metadata.labels")):
        yield invalid("spec.template.metadata.labels", mapping(template, "metadata.labels"), _MISMATCH)
    yield from _template_causes(template, "spec.template", entries(spec, "volumeClaimTemplates"))


def job_causes(data: Data, path: str = "spec") -> Iterator[Cause]:
    spec = mapping(data, "spec")
    template = mapping(spec, "template")
    yield from _template_causes(template, f"{path}.template")


def _selects(selector: Data, labels: Data) -> bool:
    try:
        compiled = label_selector(msgspec.convert(selector, LabelSelector))
    except ValueError:
        return True
    return compiled.matches({key: str(label) for key, label in labels.items()})


def _template_causes(template: Data, path: str, claims: Iterable[Data] = ()) -> Iterator[Cause]:
    yield from labels_causes(mapping(template, "metadata"), f"{path}.")
    yield from spec_causes(mapping(template, "spec"), f"{path}.spec", claims)
