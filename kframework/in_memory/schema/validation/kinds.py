"""Validation by kind, including CronJobs and Services."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kframework.in_memory.schema.causes import (
    Cause,
    duplicate,
    field_cause,
    invalid,
    required,
    unsupported,
)
from kframework.in_memory.schema.validation.claims import claim_causes, slice_causes
from kframework.in_memory.schema.validation.configuration import (
    autoscaler_causes,
    binding_causes,
    ingress_causes,
    node_causes,
    role_causes,
    secret_causes,
)
from kframework.in_memory.schema.validation.containers import PROTOCOLS, name_causes
from kframework.in_memory.schema.validation.pods import job_causes, metadata_causes, pod_causes, workload_causes
from kframework.in_memory.schema.validation.volumes import storage_causes
from kframework.in_memory.store import Data
from kframework.in_memory.workloads.schedules import CronScheduleError, load_time_zone, parse_schedule
from kframework.objects.codec import convert
from kframework.objects.kind_rules import RULED_KINDS, object_problems
from kframework.objects.kinds import find_kind
from kframework.objects.plain_data import entries, mapping, name, text, value
from kframework.objects.syntax import config_key, dns_label, port_name, port_number

#: Names of Jobs append eleven characters to that of their CronJob.
_MAX_NAME_LENGTH = 52
#: A part of a time zone's name.
_ZONE_PART = re.compile(r"(?!-|\.\.?$)[A-Za-z._0-9+-]{1,14}", re.ASCII)


def cron_job_causes(data: Data) -> Iterator[Cause]:
    spec = mapping(data, "spec")
    when = spec.get("schedule")
    if not isinstance(when, str) or not when:
        yield required("spec.schedule")
    else:
        try:
            parse_schedule(when)
        except CronScheduleError as error:
            yield invalid("spec.schedule", when, str(error))
        if "TZ" in when:
            yield invalid("spec.schedule", when, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
    yield from _time_zone_causes(spec.get("timeZone"))
    template = mapping(spec, "jobTemplate")
    yield from job_causes(template, "spec.jobTemplate.spec")
    if (selector := value(template, "spec.selector")) is not None:
        yield invalid("spec.jobTemplate.spec.selector", selector, "`selector` will be auto-generated")
    if value(template, "spec.manualSelector") is True:
        yield unsupported("spec.jobTemplate.spec.manualSelector", True, ("nil", "false"))
    if len(name(data)) > _MAX_NAME_LENGTH:
        yield invalid("metadata.name", name(data), f"must be no more than {_MAX_NAME_LENGTH} characters")


def _time_zone_causes(zone: object) -> Iterator[Cause]:
    if not isinstance(zone, str):
        return
    if not zone:
        yield invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string")
        return
    if not all(map(_ZONE_PART.fullmatch, zone.split("/"))):
        yield invalid("spec.timeZone", zone, f"unknown time zone {zone}")
        return
    if zone.lower() == "local":
        message = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        yield invalid("spec.timeZone", zone, message)
    if zone != "Local":  # valid in Go
        try:
            load_time_zone(zone)
        except CronScheduleError as error:
            yield invalid("spec.timeZone", zone, str(error))


WORKLOAD_KINDS = ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")


def object_causes(data: Data, api_version: str, kind: str) -> Iterator[Cause]:
    yield from metadata_causes(mapping(data, "metadata"), kind)
    match api_version, kind:
        case "v1", "Pod":
            yield from pod_causes(mapping(data, "spec"))
        case "v1", "Service":
            yield from service_causes(data)
        case "apps/v1", _ if kind in WORKLOAD_KINDS:
            yield from workload_causes(data, kind)
        case "batch/v1", "Job":
            yield from job_causes(data)
        case "batch/v1", "CronJob":
            yield from cron_job_causes(data)
        case "v1", "ConfigMap" | "Secret":
            for field in ("data", "binaryData"):
                for key in mapping(data, field):
                    yield from (invalid(f"{field}[{key}]", key, each) for each in config_key(key))
            if kind == "Secret":
                yield from secret_causes(data)
        case "v1", "Node":
            yield from node_causes(mapping(data, "spec"))
        case "autoscaling/v2", "HorizontalPodAutoscaler":
            yield from autoscaler_causes(mapping(data, "spec"))
        case "networking.k8s.io/v1", "Ingress":
            yield from ingress_causes(mapping(data, "spec"))
        case "rbac.authorization.k8s.io/v1", "Role" | "ClusterRole":
            yield from role_causes(data, kind)
        case "rbac.authorization.k8s.io/v1", "RoleBinding" | "ClusterRoleBinding":
            yield from binding_causes(data, kind)
        case "resource.k8s.io/v1", "ResourceClaim":
            yield from claim_causes(mapping(data, "spec"), "spec")
        case "resource.k8s.io/v1", "ResourceClaimTemplate":
            yield from claim_causes(mapping(data, "spec.spec"), "spec.spec")
        case "resource.k8s.io/v1", "ResourceSlice":
            yield from slice_causes(mapping(data, "spec"), "spec")
        case ("v1", "PersistentVolume" | "PersistentVolumeClaim") | ("storage.k8s.io/v1", _):
            yield from storage_causes(data, kind)
    known = find_kind(api_version, kind)
    if known is not None and issubclass(known.struct, RULED_KINDS):
        yield from (field_cause(problem, "") for problem in object_problems(convert(data, known)))


_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")


def service_causes(data: Data) -> Iterator[Cause]:
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
    names, numbers = set[str](), set[tuple[object, object]]()
    for index, port in enumerate(ports):
        location = f"spec.ports[{index}]"
        yield from name_causes(text(port, "name"), f"{location}.name", dns_label, names, is_needed=len(ports) > 1)
        number, target = port.get("port", 0), port.get("targetPort")
        wrong = port_number(number) if isinstance(number, int) else ()
        yield from (invalid(f"{location}.port", number, each) for each in wrong)
        if (protocol := port.get("protocol")) not in (None, *PROTOCOLS):
            yield unsupported(f"{location}.protocol", protocol, PROTOCOLS)
        wrong = port_name(target) if isinstance(target, str) else ()
        if isinstance(target, int) and target:
            wrong = port_number(target)
        yield from (invalid(f"{location}.targetPort", target, each) for each in wrong)
        if (protocol, number) in numbers:
            yield duplicate(location, {"port": number, "protocol": protocol})
        numbers.add((protocol, number))
