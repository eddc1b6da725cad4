"""What may not change in an object once it is there."""

from __future__ import annotations

from collections.abc import Iterator

from kframework.fake_api.schema.causes import Cause, forbidden, invalid
from kframework.fake_api.schema.defaults.kinds import with_defaults
from kframework.fake_api.schema.validation.certificates import certificate_request_causes
from kframework.fake_api.schema.validation.pod_changes import ephemeral_causes, resize_causes, update_causes
from kframework.fake_api.wire.documents import Data
from kframework.fake_api.wire.plain_data import mapping, value

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
