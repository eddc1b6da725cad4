"""Validation of volumes: those of pods, PersistentVolumes and their claims, and what CSI drivers publish."""

from __future__ import annotations

from collections.abc import Iterator

from kframework.in_memory.schema.causes import Cause, forbidden, invalid, required, unsupported
from kframework.in_memory.store import Data
from kframework.objects.plain_data import entries, mapping, text, value
from kframework.objects.quantity import QuantityError, nano
from kframework.objects.syntax import dns_subdomain

#: The fields that a source of a pod's volume needs.
_NEEDED = {
    "configMap": ("name",),
    "csi": ("driver",),
    "ephemeral": ("volumeClaimTemplate",),
    "hostPath": ("path",),
    "nfs": ("server", "path"),
    "persistentVolumeClaim": ("claimName",),
    "secret": ("secretName",),
}
_HOST_PATH_TYPES = (
    *("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"),
)
_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_FS_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_LIFECYCLE_MODES = ("Ephemeral", "Persistent")
#: The fields of a PersistentVolume's spec that are no source.
_NO_SOURCES = {
    *("accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy"),
    *("storageClassName", "volumeAttributesClassName", "volumeMode"),
}


def volume_causes(volume: Data, path: str) -> Iterator[Cause]:
    """Yield problems of the source of a pod's volume."""
    sources = [field for field in volume if field != "name"]
    for extra in sources[1:]:
        yield forbidden(f"{path}.{extra}", "may not specify more than 1 volume type")
    for source in sources[:1]:
        location, details = f"{path}.{source}", mapping(volume, source)
        yield from (required(f"{location}.{each}") for each in _NEEDED.get(source, ()) if not value(details, each))
        yield from _mode_causes(details, "defaultMode", location)
        for index, item in enumerate(entries(details, "items") if source in ("configMap", "secret") else ()):
            yield from _item_causes(item, f"{location}.items[{index}]")
        if source == "emptyDir" and _is_negative(details.get("sizeLimit")):
            yield forbidden(f"{location}.sizeLimit", "SizeLimit field must be a valid resource quantity")
        if source == "hostPath":
            yield from _backstep_causes(text(details, "path"), f"{location}.path")
            if (kind := details.get("type")) not in (None, *_HOST_PATH_TYPES):
                yield unsupported(f"{location}.type", kind, _HOST_PATH_TYPES)
        if source == "nfs" and not text(details, "path", "/").startswith("/"):
            yield invalid(f"{location}.path", details["path"], "must be an absolute path")


def descending_path_causes(target: str, path: str) -> Iterator[Cause]:
    """Yield problems of a path that must stay below a folder; none for an empty one."""
    if target.startswith("/"):
        yield invalid(path, target, "must be a relative path")
    yield from _backstep_causes(target, path)


def _backstep_causes(target: str, path: str) -> Iterator[Cause]:
    if ".." in target.split("/"):
        yield invalid(path, target, "must not contain '..'")


def _item_causes(item: Data, path: str) -> Iterator[Cause]:
    yield from (required(f"{path}.{field}") for field in ("key", "path") if not text(item, field))
    yield from descending_path_causes(text(item, "path"), f"{path}.path")
    yield from _mode_causes(item, "mode", path)


def _mode_causes(holder: Data, field: str, path: str) -> Iterator[Cause]:
    if isinstance(mode := holder.get(field), int) and not 0 <= mode <= 0o777:
        yield invalid(f"{path}.{field}", mode, _MODE)


def _is_negative(quantity: object) -> bool:
    try:
        return isinstance(quantity, str | int | float) and nano(quantity) < 0
    except QuantityError:
        return False


def storage_causes(data: Data, kind: str) -> Iterator[Cause]:
    """Yield what misses in an object of storage, and the choices that only an API server reads."""
    spec = mapping(data, "spec")
    match kind:
        case "PersistentVolume":
            for field in ("accessModes", "capacity"):
                if not spec.get(field):
                    yield required(f"spec.{field}")
            sources = [field for field in spec if field not in _NO_SOURCES]
            if not sources:
                yield required("spec", "must specify a volume type")
            yield from (forbidden(f"spec.{each}", "may not specify more than 1 volume type") for each in sources[1:])
            if "local" in sources[:1] and not spec.get("nodeAffinity"):
                yield required("spec.nodeAffinity", "Local volume requires node affinity")
        case "PersistentVolumeClaim":
            if not spec.get("accessModes"):
                yield required("spec.accessModes", "at least 1 access mode is required")
            if not mapping(spec, "resources.requests").get("storage"):
                yield required("spec.resources[storage]")
        case "StorageClass" if not data.get("provisioner"):
            yield required("provisioner")
        case "CSIDriver":
            if (policy := spec.get("fsGroupPolicy")) not in (None, *_FS_GROUP_POLICIES):
                yield unsupported("spec.fsGroupPolicy", policy, _FS_GROUP_POLICIES)
            modes = spec.get("volumeLifecycleModes")
            for mode in modes if isinstance(modes, list) else ():
                if mode not in _LIFECYCLE_MODES:
                    yield unsupported("spec.volumeLifecycleModes", mode, _LIFECYCLE_MODES)
        case "CSINode":
            for index, driver in enumerate(entries(spec, "drivers")):
                if not text(driver, "nodeID"):
                    yield required(f"spec.drivers[{index}].nodeID")
        case "VolumeAttachment":
            if not text(spec, "attacher"):
                yield required("spec.attacher")
            node = text(spec, "nodeName")
            yield from (invalid("spec.nodeName", node, each) for each in dns_subdomain(node))
