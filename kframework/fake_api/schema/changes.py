"""Forbidden changes of existing objects; both versions have their defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kframework.fake_api.schema.shared_specs import qos_class
from kframework.fake_api.wire.documents import Data
from kframework.in_memory.schema.causes import (
    Cause,
    duplicate,
    forbidden,
    invalid,
    not_found,
    required,
    too_long,
    too_many,
    unsupported,
)
from kframework.in_memory.schema.defaults import with_defaults
from kframework.in_memory.schema.validation.containers import container_causes
from kframework.objects.plain_data import entries, mapping, text, value
from kframework.objects.syntax import qualified_name

_LISTS = ("containers", "initContainers")
_NOT_EPHEMERAL = ("ports", "resources", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resizePolicy")
_MUTABLE = ("cpu", "memory")
_ONLY_RESOURCES = "only cpu and memory resources are mutable"
_POD_MESSAGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
#: Pod fields that an update may change, within their own rules.
_CHANGEABLE = ("activeDeadlineSeconds", "tolerations", "schedulingGates", "nodeName")
_TERMS = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


def update_causes(old: Data, new: Data) -> Iterator[Cause]:
    for field in _LISTS:
        if len(entries(old, field)) != len(entries(new, field)):
            yield forbidden(f"spec.{field}", "pod updates may not add or remove containers")
            return
    before, after = old.get("activeDeadlineSeconds"), new.get("activeDeadlineSeconds")
    if isinstance(before, int) and after is None:
        yield invalid("spec.activeDeadlineSeconds", after, "must not update from a positive integer to nil value")
    elif isinstance(before, int) and isinstance(after, int) and before < after:
        yield invalid("spec.activeDeadlineSeconds", after, "must be less than or equal to previous value")
    tolerated = [_without_seconds(each) for each in entries(new, "tolerations")]
    if any(_without_seconds(each) not in tolerated for each in entries(old, "tolerations")):
        yield forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    if old.get("schedulingGates"):
        yield from _node_choice_causes(old, new)
        old, new = _without_node_choice(old), _without_node_choice(new)
    if _immutable_fields(old) != _immutable_fields(new):
        yield forbidden("spec", _POD_MESSAGE)


def _node_choice_causes(old: Data, new: Data) -> Iterator[Cause]:
    """Yield what would let a gated pod run on more nodes than before."""
    selector = mapping(new, "nodeSelector")
    if not mapping(old, "nodeSelector").items() <= selector.items():
        message = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield invalid("spec.nodeSelector", selector, message)
    before, after = entries(old, _TERMS), entries(new, _TERMS)
    if before and len(before) != len(after):
        message = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        yield invalid(f"spec.{_TERMS}", after, message)
        return
    for index, (was, now) in enumerate(zip(before, after, strict=False)):
        if not _has_only_additions(was, now):
            message = "only additions are allowed (no mutations or deletions)"
            yield invalid(f"spec.{_TERMS}[{index}]", now, message)


def _has_only_additions(was: Data, now: Data) -> bool:
    """Return whether each requirement stays; a term without any matches no node, so it may get none."""
    lists = [(entries(was, field), entries(now, field)) for field in ("matchExpressions", "matchFields")]
    stay = all(after[: len(before)] == before for before, after in lists)
    return stay and (any(before for before, _ in lists) or not any(after for _, after in lists))


def _without_node_choice(spec: Data) -> Data:
    affinity = {field: value for field, value in mapping(spec, "affinity").items() if field != "nodeAffinity"}
    return {**spec, "nodeSelector": {}, "affinity": affinity}


def _without_seconds(toleration: Data) -> Data:
    return {field: value for field, value in toleration.items() if field != "tolerationSeconds"}


def _immutable_fields(spec: Data) -> Data:
    rest = {field: value for field, value in spec.items() if field not in _CHANGEABLE and value not in ({}, [])}
    images = {field: [{**each, "image": ""} for each in entries(spec, field)] for field in _LISTS}
    return rest | images


def ephemeral_causes(old: Data, new: Data) -> Iterator[Cause]:
    path = "spec.ephemeralContainers"
    others = {text(each, "name") for field in _LISTS for each in entries(new, field)}
    volumes = {text(each, "name") for each in entries(new, "volumes")}
    names: set[str] = set()
    for index, container in enumerate(entries(new, "ephemeralContainers")):
        location, name = f"{path}[{index}]", text(container, "name")
        yield from container_causes(container, location, volumes, names)
        if name in others:
            yield duplicate(f"{location}.name", name)
        target = text(container, "targetContainerName")
        if target and target not in others:
            yield not_found(f"{location}.targetContainerName", target)
        for field in _NOT_EPHEMERAL:
            if container.get(field):
                yield forbidden(f"{location}.{field}", "cannot be set for an Ephemeral Container")
    ephemeral = {text(each, "name"): each for each in entries(new, "ephemeralContainers")}
    for was in entries(old, "ephemeralContainers"):
        name = text(was, "name")
        if name not in ephemeral:
            yield forbidden(path, f'existing ephemeral containers "{name}" may not be removed\n')
        elif ephemeral[name] != was:
            yield forbidden(path, f'existing ephemeral containers "{name}" may not be changed\n')


def resize_causes(old: Data, new: Data) -> Iterator[Cause]:
    if qos_class(old) != qos_class(new):
        yield invalid("spec", qos_class(old), "Pod QOS Class may not change as a result of resizing")
    have_same_containers = True
    for list_name in _LISTS:
        before, after = ([text(each, "name") for each in entries(spec, list_name)] for spec in (old, new))
        have_same_containers &= before == after
        if len(before) != len(after):
            yield forbidden(f"spec.{list_name}", f"{list_name} may not be added or removed on resize")
            continue
        for index in range(len(before)):
            if before[index] != after[index]:
                yield forbidden(
                    f"spec.{list_name}[{index}].name", f"{list_name} may not be renamed or reordered on resize"
                )
    if not have_same_containers:
        return
    if old.get("resources") and not new.get("resources"):
        yield forbidden("spec.resources", "pod-level resources cannot be removed")
    for list_name in reversed(_LISTS):
        for index, (was, now) in enumerate(zip(entries(old, list_name), entries(new, list_name), strict=True)):
            for field in ("requests", "limits"):
                if mapping(was, f"resources.{field}").keys() - mapping(now, f"resources.{field}").keys():
                    path = f"spec.{list_name}[{index}].resources.{field}"
                    yield forbidden(path, f"resource {field} cannot be removed")
            if _immutable_container(was) != _immutable_container(now):
                yield forbidden("spec", _ONLY_RESOURCES)


def _immutable_container(container: Data) -> Data:
    resources = {
        field: {name: each for name, each in mapping(container, f"resources.{field}").items() if name not in _MUTABLE}
        for field in ("limits", "requests")
    }
    rest = {field: value for field, value in container.items() if field not in ("resources", "resizePolicy")}
    return rest | {"resources": resources}


_IMMUTABLE = "field is immutable"
_WHEN_SET = "field is immutable when `immutable` is set"
_FIELDS = {
    ("apps/v1", "DaemonSet"): ("spec.selector",),
    ("apps/v1", "Deployment"): ("spec.selector",),
    ("apps/v1", "ReplicaSet"): ("spec.selector",),
    ("batch/v1", "Job"): ("spec.selector", "spec.completionMode", "spec.template"),
    ("scheduling.k8s.io/v1", "PriorityClass"): ("preemptionPolicy",),
    ("storage.k8s.io/v1", "StorageClass"): ("volumeBindingMode",),
    ("v1", "Secret"): ("type",),
}
#: Fields of a Job's template that may change, beside the choice of nodes, while it is suspended and has not started.
_DIRECTIVES = ("tolerations", "schedulingGates")
_NOTES = ("labels", "annotations")
_CLAIMS = "persistentVolumeClaimRetentionPolicy"
_MUTABLE_FIELDS = (
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit", _CLAIMS, "minReadySeconds"),
)
_STATEFUL_SET_MESSAGE = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy',"
    f" 'revisionHistoryLimit', '{_CLAIMS}' and 'minReadySeconds' are forbidden"
)


def change_causes(old: Data, new: Data, api_version: str, kind: str) -> Iterator[Cause]:
    """Yield forbidden changes; a value on one side only counts as omitted or defaulted."""
    fields = _FIELDS.get((api_version, kind), ())
    if kind in ("ConfigMap", "Secret", "StatefulSet", "Service") or fields:
        old = with_defaults(old, api_version, kind)  # it may come from a file, without defaults
    may_be_redirected = kind == "Job" and value(old, "spec.suspend") is True and not value(old, "status.startTime")
    for path in fields:
        before, after = value(old, path), value(new, path)
        if path == "spec.template" and may_be_redirected:
            before, after = _without_directives(mapping(old, path)), _without_directives(mapping(new, path))
        if before is not None and after is not None and before != after:
            yield invalid(path, after, _IMMUTABLE)
    match api_version, kind:
        case "v1", "ConfigMap" | "Secret" if old.get("immutable") is True:
            if new.get("immutable") is not True:
                yield forbidden("immutable", _WHEN_SET)
            for field in ("data", "binaryData"):
                if (old.get(field) or {}) != (new.get(field) or {}):
                    yield forbidden(field, _WHEN_SET)
        case "apps/v1", "StatefulSet":
            specs = (mapping(old, "spec").items(), mapping(new, "spec").items())
            before, after = ({field: value for field, value in spec if field not in _MUTABLE_FIELDS} for spec in specs)
            if before != after:
                yield forbidden("spec", _STATEFUL_SET_MESSAGE)
        case "scheduling.k8s.io/v1", "PriorityClass":
            if old.get("value") != new.get("value"):
                yield forbidden("value", "may not be changed in an update.")
        case "storage.k8s.io/v1", "StorageClass":
            for field in ("parameters", "provisioner", "reclaimPolicy"):
                if (old.get(field) or {}) != (new.get(field) or {}):
                    yield forbidden(field, f"updates to {field} are forbidden.")
        case "v1", "Service":
            before, after = value(old, "spec.clusterIP"), value(new, "spec.clusterIP")
            stays = value(new, "spec.type") != "ExternalName"
            if before and after and before != after and stays:
                yield invalid("spec.clusterIPs[0]", [after], "may not change once set")
        case "v1", "Node":
            for field, shown in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
                if (before := value(old, f"spec.{field}")) and value(new, f"spec.{field}") != before:
                    yield forbidden(f"spec.{field}", f'node updates may not change {shown} except from "" to valid')
        case "rbac.authorization.k8s.io/v1", "RoleBinding" | "ClusterRoleBinding":
            if (after := new.get("roleRef")) != old.get("roleRef"):
                yield invalid("roleRef", after, "cannot change roleRef")


def _without_directives(template: Data) -> Data:
    """Return the template of a Job without what decides where its pods run and how much they request."""
    spec = {field: value for field, value in mapping(template, "spec").items() if field not in _DIRECTIVES}
    containers = {field: [{**each, "resources": {}} for each in entries(spec, field)] for field in _LISTS}
    metadata = {field: each for field, each in mapping(template, "metadata").items() if field not in _NOTES}
    return {**template, "metadata": metadata, "spec": {**_without_node_choice(spec), **containers}}


def part_causes(part: str, old: Data, new: Data, api_version: str, kind: str) -> Iterator[Cause]:
    """Yield problems of a change over a subresource, "" for the object itself."""
    match api_version, kind:
        case "v1", "Pod":
            before, after = (mapping(with_defaults(each, api_version, kind), "spec") for each in (old, new))
            if (check := _POD_CHANGES.get(part)) and before != after:
                yield from check(before, after)
        case "certificates.k8s.io/v1", "CertificateSigningRequest" if part:
            yield from certificate_request_causes(part, old, new)
        case "resource.k8s.io/v1", "DeviceTaintRule" if part == "status":
            yield from _rule_condition_causes(entries(new, _CONDITIONS))


_POD_CHANGES = {"": update_causes, "ephemeralcontainers": ephemeral_causes, "resize": resize_causes}


_APPROVAL_CONDITIONS = ("Approved", "Denied")
_PERMANENT_CONDITIONS = (*_APPROVAL_CONDITIONS, "Failed")
_CONDITIONS = "status.conditions"


def certificate_request_causes(part: str, old: Data, new: Data) -> Iterator[Cause]:
    yield from _condition_causes(entries(new, _CONDITIONS))
    for name in _PERMANENT_CONDITIONS:
        before, after = ([each for each in entries(one, _CONDITIONS) if each.get("type") == name] for one in (old, new))
        if len(after) < len(before):
            yield forbidden(_CONDITIONS, f'updates may not remove a condition of type "{name}"')
        elif name in _APPROVAL_CONDITIONS and part != "approval" and len(after) > len(before):
            yield forbidden(_CONDITIONS, f'updates may not add a condition of type "{name}"')
        elif name in _APPROVAL_CONDITIONS and part != "approval" and after != before:
            yield forbidden(_CONDITIONS, f'updates may not modify a condition of type "{name}"')
    issued = text(old, "status.certificate")
    if issued and value(new, "status.certificate") != issued:
        yield forbidden("status.certificate", "updates may not modify existing certificate content")


def _condition_causes(conditions: list[Data]) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        location, name, status = f"{_CONDITIONS}[{index}]", text(condition, "type"), text(condition, "status")
        supported = ("True",) if name in _PERMANENT_CONDITIONS else _STATUSES
        if not name:
            yield required(f"{location}.type")
        if not status:
            yield required(f"{location}.status")
        elif status not in supported:
            yield unsupported(f"{location}.status", status, supported)
        if name in _APPROVAL_CONDITIONS and seen & ({*_APPROVAL_CONDITIONS} - {name}):
            yield invalid(_CONDITIONS, name, "Approved and Denied conditions are mutually exclusive")
        if name in seen:
            yield duplicate(f"{location}.type", name)
        seen.add(name)


_STATUSES = ("False", "True", "Unknown")
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_BAD_REASON = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_'"
)
_MAX_CONDITIONS, _MAX_REASON, _MAX_MESSAGE = 8, 1 << 10, 32 << 10


def _rule_condition_causes(conditions: list[Data]) -> Iterator[Cause]:
    """Yield problems of a DeviceTaintRule's conditions, which keep the rules of `metav1.Condition`."""
    types: set[str] = set()
    for index, condition in enumerate(conditions):
        location, type = f"{_CONDITIONS}[{index}]", text(condition, "type")
        if type in types:
            yield duplicate(f"{location}.type", type)
        types.add(type)
        yield from (invalid(f"{location}.type", type, each) for each in qualified_name(type))
        if (status := text(condition, "status")) not in _STATUSES:
            yield unsupported(f"{location}.status", status, _STATUSES)
        if isinstance(generation := condition.get("observedGeneration"), int) and generation < 0:
            message = "must be greater than or equal to zero"
            yield invalid(f"{location}.observedGeneration", generation, message)
        if not condition.get("lastTransitionTime"):
            yield required(f"{location}.lastTransitionTime", "must be set")
        reason = text(condition, "reason")
        if not reason:
            yield required(f"{location}.reason", "must be set")
        elif not _REASON.fullmatch(reason):
            yield invalid(f"{location}.reason", reason, _BAD_REASON)
        if len(reason) > _MAX_REASON:
            yield too_long(f"{location}.reason", _MAX_REASON)
        if len(text(condition, "message")) > _MAX_MESSAGE:
            yield too_long(f"{location}.message", _MAX_MESSAGE)
    if len(conditions) > _MAX_CONDITIONS:
        yield too_many(_CONDITIONS, len(conditions), _MAX_CONDITIONS)
