"""What may not change in an object once it is there, pods included; both pod specs have their defaults."""

from __future__ import annotations

from collections.abc import Iterator

from kframework.fake_api.schema.causes import Cause, duplicate, forbidden, invalid, not_found, required, unsupported
from kframework.fake_api.schema.defaults.kinds import with_defaults
from kframework.fake_api.schema.shared_specs import qos_class
from kframework.fake_api.schema.validation.pods import container_causes
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import entries, mapping, text, value

_LISTS = ("containers", "initContainers")
#: Of a container that is put into a running pod to look at it: what must not be there.
_NOT_EPHEMERAL = ("ports", "resources", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resizePolicy")
_MUTABLE = ("cpu", "memory")
_ONLY_RESOURCES = "only cpu and memory resources are mutable"
_MAIN = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
#: What an update may change, within the rules for each.
_CHANGEABLE = ("activeDeadlineSeconds", "tolerations", "schedulingGates", "nodeName")
#: What it may change while the pod is gated, too.
_CHANGEABLE_GATED = ("nodeSelector", "affinity")


def update_causes(old: Data, new: Data) -> Iterator[Cause]:
    """Yield what an update of the pod itself changes that it may not."""
    for field in _LISTS:
        if len(entries(old, field)) != len(entries(new, field)):
            yield forbidden(f"spec.{field}", "pod updates may not add or remove containers")
            return
    was, told = old.get("activeDeadlineSeconds"), new.get("activeDeadlineSeconds")
    if isinstance(was, int) and told is None:
        yield invalid("spec.activeDeadlineSeconds", told, "must not update from a positive integer to nil value")
    elif isinstance(was, int) and isinstance(told, int) and was < told:
        yield invalid("spec.activeDeadlineSeconds", told, "must be less than or equal to previous value")
    if any(each not in entries(new, "tolerations") for each in entries(old, "tolerations")):
        yield forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    changeable = _CHANGEABLE + (_CHANGEABLE_GATED if old.get("schedulingGates") else ())
    if _unchangeable(old, changeable) != _unchangeable(new, changeable):
        yield forbidden("spec", _MAIN)


def _unchangeable(spec: Data, changeable: tuple[str, ...]) -> Data:
    rest = {field: told for field, told in spec.items() if field not in changeable and told not in ({}, [])}
    images = {field: [{**each, "image": ""} for each in entries(spec, field)] for field in _LISTS}
    return rest | images


def ephemeral_causes(old: Data, new: Data) -> Iterator[Cause]:
    """Yield what is wrong with the containers that are put into a running pod to look at it."""
    path = "spec.ephemeralContainers"
    others = {text(each, "name") for field in _LISTS for each in entries(new, field)}
    volumes = {text(each, "name") for each in entries(new, "volumes")}
    names: set[str] = set()
    for index, container in enumerate(entries(new, "ephemeralContainers")):
        place, name = f"{path}[{index}]", text(container, "name")
        yield from container_causes(container, place, volumes, names)
        if name in others:
            yield duplicate(f"{place}.name", name)
        target = text(container, "targetContainerName")
        if target and target not in others:
            yield not_found(f"{place}.targetContainerName", target)
        for field in _NOT_EPHEMERAL:
            if container.get(field):
                yield forbidden(f"{place}.{field}", "cannot be set for an Ephemeral Container")
    told = {text(each, "name"): each for each in entries(new, "ephemeralContainers")}
    for was in entries(old, "ephemeralContainers"):
        name = text(was, "name")
        if name not in told:
            yield forbidden(path, f'existing ephemeral containers "{name}" may not be removed\n')
        elif told[name] != was:
            yield forbidden(path, f'existing ephemeral containers "{name}" may not be changed\n')


def resize_causes(old: Data, new: Data) -> Iterator[Cause]:
    """Yield why a pod cannot have the resources that it is to have."""
    if qos_class(old) != qos_class(new):
        yield invalid("spec", qos_class(old), "Pod QOS Class may not change as a result of resizing")
    have_same_containers = True
    for place in _LISTS:
        before, after = ([text(each, "name") for each in entries(spec, place)] for spec in (old, new))
        have_same_containers &= before == after
        if len(before) != len(after):
            yield forbidden(f"spec.{place}", f"{place} may not be added or removed on resize")
            continue
        for index in range(len(before)):
            if before[index] != after[index]:
                yield forbidden(f"spec.{place}[{index}].name", f"{place} may not be renamed or reordered on resize")
    if not have_same_containers:
        return
    if old.get("resources") and not new.get("resources"):
        yield forbidden("spec.resources", "pod-level resources cannot be removed")
    for place in ("initContainers", "containers"):
        for index, (was, told) in enumerate(zip(entries(old, place), entries(new, place), strict=True)):
            for field in ("requests", "limits"):
                if mapping(was, f"resources.{field}").keys() - mapping(told, f"resources.{field}").keys():
                    path = f"spec.{place}[{index}].resources.{field}"
                    yield forbidden(path, f"resource {field} cannot be removed")
            if _immutable(was) != _immutable(told):
                yield forbidden("spec", _ONLY_RESOURCES)


def _immutable(container: Data) -> Data:
    resources = {
        field: {name: told for name, told in mapping(container, f"resources.{field}").items() if name not in _MUTABLE}
        for field in ("limits", "requests")
    }
    rest = {field: told for field, told in container.items() if field not in ("resources", "resizePolicy")}
    return rest | {"resources": resources}


_IMMUTABLE = "field is immutable"
_WHEN_SET = "field is immutable when `immutable` is set"
#: By kind: the fields that stay as they are.
_FIELDS = {
    ("apps/v1", "DaemonSet"): ("spec.selector",),
    ("apps/v1", "Deployment"): ("spec.selector",),
    ("apps/v1", "ReplicaSet"): ("spec.selector",),
    ("batch/v1", "Job"): ("spec.selector", "spec.completionMode", "spec.template"),
    ("v1", "Secret"): ("type",),
}
_CLAIMS = "persistentVolumeClaimRetentionPolicy"
_OF_A_STATEFUL_SET = (
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit", _CLAIMS, "minReadySeconds"),
)
_ONLY_THOSE = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy',"
    f" 'revisionHistoryLimit', '{_CLAIMS}' and 'minReadySeconds' are forbidden"
)


def change_causes(old: Data, new: Data, api_version: str, kind: str) -> Iterator[Cause]:
    """Yield what an update changes that it may not; what stands only on one side was not said, or filled in."""
    fields = _FIELDS.get((api_version, kind), ())
    if kind in ("ConfigMap", "Secret", "StatefulSet", "Service") or fields:
        old = with_defaults(old, api_version, kind)  # it may be from a file, as its author wrote it
    for path in fields:
        was, told = value(old, path), value(new, path)
        if was is not None and told is not None and was != told:
            yield invalid(path, told, _IMMUTABLE)
    match api_version, kind:
        case "v1", "ConfigMap" | "Secret" if old.get("immutable") is True:
            if new.get("immutable") is not True:
                yield forbidden("immutable", _WHEN_SET)
            for field in ("data", "binaryData"):
                if (old.get(field) or {}) != (new.get(field) or {}):
                    yield forbidden(field, _WHEN_SET)
        case "apps/v1", "StatefulSet":
            specs = (mapping(old, "spec").items(), mapping(new, "spec").items())
            was, told = ({field: said for field, said in spec if field not in _OF_A_STATEFUL_SET} for spec in specs)
            if was != told:
                yield forbidden("spec", _ONLY_THOSE)
        case "v1", "Service":
            was, told = value(old, "spec.clusterIP"), value(new, "spec.clusterIP")
            stays = value(new, "spec.type") != "ExternalName"
            if was and told and was != told and stays:
                yield invalid("spec.clusterIPs[0]", [told], "may not change once set")
        case "rbac.authorization.k8s.io/v1", "RoleBinding" | "ClusterRoleBinding":
            if (told := new.get("roleRef")) != old.get("roleRef"):
                yield invalid("roleRef", told, "cannot change roleRef")


def part_causes(part: str, old: Data, new: Data, api_version: str, kind: str) -> Iterator[Cause]:
    """Yield what is wrong with the change of a part, the main one being ""."""
    match api_version, kind:
        case "v1", "Pod":
            was, told = (mapping(with_defaults(each, api_version, kind), "spec") for each in (old, new))
            if (look := _POD_CHANGES.get(part)) and was != told:
                yield from look(was, told)
        case "certificates.k8s.io/v1", "CertificateSigningRequest" if part:
            yield from certificate_request_causes(part, old, new)


_POD_CHANGES = {"": update_causes, "ephemeralcontainers": ephemeral_causes, "resize": resize_causes}


_DECIDING = ("Approved", "Denied")
_LASTING = (*_DECIDING, "Failed")
_CONDITIONS = "status.conditions"


def certificate_request_causes(part: str, old: Data, new: Data) -> Iterator[Cause]:
    """Yield what is wrong with a change of the status or of the approval."""
    yield from _conditions(entries(new, _CONDITIONS))
    for name in _LASTING:
        was, told = ([each for each in entries(one, _CONDITIONS) if each.get("type") == name] for one in (old, new))
        if len(told) < len(was):
            yield forbidden(_CONDITIONS, f'updates may not remove a condition of type "{name}"')
        elif name in _DECIDING and part != "approval" and len(told) > len(was):
            yield forbidden(_CONDITIONS, f'updates may not add a condition of type "{name}"')
        elif name in _DECIDING and part != "approval" and told != was:
            yield forbidden(_CONDITIONS, f'updates may not modify a condition of type "{name}"')
    issued = text(old, "status.certificate")
    if issued and value(new, "status.certificate") != issued:
        yield forbidden("status.certificate", "updates may not modify existing certificate content")


def _conditions(conditions: list[Data]) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        place, name, status = f"{_CONDITIONS}[{index}]", text(condition, "type"), text(condition, "status")
        supported = ("True",) if name in _LASTING else ("False", "True", "Unknown")
        if not name:
            yield required(f"{place}.type")
        if not status:
            yield required(f"{place}.status")
        elif status not in supported:
            yield unsupported(f"{place}.status", status, supported)
        if name in _DECIDING and seen & ({*_DECIDING} - {name}):
            yield invalid(_CONDITIONS, name, "Approved and Denied conditions are mutually exclusive")
        if name in seen:
            yield duplicate(f"{place}.type", name)
        seen.add(name)
