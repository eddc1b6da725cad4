"""What is wrong with an object, by its kind."""

from __future__ import annotations

from collections.abc import Iterator

from kframework.fake_api.schema.causes import Cause, duplicate, forbidden, invalid, required, unsupported
from kframework.fake_api.schema.validation import workloads
from kframework.fake_api.schema.validation.cron_jobs import cron_job
from kframework.fake_api.schema.validation.metadata import metadata_causes
from kframework.fake_api.schema.validation.pods import pod_causes
from kframework.fake_api.schema.validation.webhooks import webhook_causes
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import entries, mapping, name, text
from kframework.objects.syntax import config_key, dns_label, port_name, port_number

_KEPT_RUNNING = ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
#: What is above belongs to the classes of the system.
_HIGHEST_PRIORITY = 1_000_000_000


def object_causes(data: Data, api_version: str, kind: str) -> Iterator[Cause]:
    """Yield what is wrong with an object that has its defaults."""
    yield from metadata_causes(mapping(data, "metadata"), kind)
    match api_version, kind:
        case "v1", "Pod":
            yield from pod_causes(mapping(data, "spec"))
        case "v1", "Service":
            yield from service_causes(data)
        case "apps/v1", _ if kind in _KEPT_RUNNING:
            yield from workloads.kept_running(data, kind)
        case "batch/v1", "Job":
            yield from workloads.job(data)
        case "batch/v1", "CronJob":
            yield from cron_job(data)
        case "v1", "ConfigMap" | "Secret":
            for field in ("data", "binaryData"):
                for key in mapping(data, field):
                    yield from (invalid(f"{field}[{key}]", key, each) for each in config_key(key))
        case "scheduling.k8s.io/v1", "PriorityClass":
            yield from _priority_class(data)
        case "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration":
            yield from webhook_causes(data)
        case "storage.k8s.io/v1", "StorageClass" if not data.get("provisioner"):
            yield required("provisioner")


def _priority_class(data: Data) -> Iterator[Cause]:
    priority = data.get("value")
    if name(data).startswith("system-"):
        said = "priority class names with 'system-' prefix are reserved for system use only"
        yield forbidden("metadata.name", said)
    elif isinstance(priority, int) and priority > _HIGHEST_PRIORITY:
        yield forbidden("value", f"maximum allowed value of a user defined priority is {_HIGHEST_PRIORITY}")


_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")


def service_causes(data: Data) -> Iterator[Cause]:
    """Yield what is wrong with a Service."""
    spec = mapping(data, "spec")
    kind, ports = text(spec, "type"), entries(spec, "ports")
    if kind not in _TYPES:
        yield unsupported("spec.type", kind, _TYPES)
    if kind == "ExternalName":
        if not text(spec, "externalName"):
            yield required("spec.externalName")
    elif not ports and spec.get("clusterIP") != "None":
        yield required("spec.ports")
    if (affinity := spec.get("sessionAffinity")) not in (None, "ClientIP", "None"):
        yield unsupported("spec.sessionAffinity", affinity, ("ClientIP", "None"))
    yield from _ports(ports)


def _ports(ports: list[Data]) -> Iterator[Cause]:
    names, numbers = set[str](), set[tuple[object, object]]()
    for index, port in enumerate(ports):
        place, name = f"spec.ports[{index}]", text(port, "name")
        if not name and len(ports) > 1:
            yield required(f"{place}.name")
        if name:
            yield from (invalid(f"{place}.name", name, each) for each in dns_label(name))
            if name in names:
                yield duplicate(f"{place}.name", name)
            names.add(name)
        number, target = port.get("port", 0), port.get("targetPort")
        yield from (invalid(f"{place}.port", number, each) for each in _number(number))
        if (protocol := port.get("protocol")) not in (None, *_PROTOCOLS):
            yield unsupported(f"{place}.protocol", protocol, _PROTOCOLS)
        wrong = port_name(target) if isinstance(target, str) else _number(target) if target else ()
        yield from (invalid(f"{place}.targetPort", target, each) for each in wrong)
        if (protocol, number) in numbers:
            yield duplicate(place, {"port": number, "protocol": protocol})
        numbers.add((protocol, number))


def _number(found: object) -> tuple[str, ...]:
    return port_number(found) if isinstance(found, int) else ()
