"""What may not change in an object once it is there."""

from __future__ import annotations

from collections.abc import Iterator

from kframework.fake_api.schema.causes import Cause, duplicate, forbidden, invalid, required, unsupported
from kframework.fake_api.schema.defaults.kinds import with_defaults
from kframework.fake_api.schema.validation.pod_changes import ephemeral_causes, resize_causes, update_causes
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import entries, mapping, text, value

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
            was, told = _without(mapping(old, "spec")), _without(mapping(new, "spec"))
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


def _without(spec: Data) -> Data:
    return {field: told for field, told in spec.items() if field not in _OF_A_STATEFUL_SET}


_DECIDING = ("Approved", "Denied")
_LASTING = (*_DECIDING, "Failed")
_CONDITIONS = "status.conditions"


def certificate_request_causes(part: str, old: Data, new: Data) -> Iterator[Cause]:
    """Yield what is wrong with a change of the status or of the approval."""
    yield from _conditions(entries(new, _CONDITIONS))
    for name in _LASTING:
        was, told = _of_type(old, name), _of_type(new, name)
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


def _of_type(request: Data, name: str) -> list[Data]:
    return [each for each in entries(request, _CONDITIONS) if each.get("type") == name]
