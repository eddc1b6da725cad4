"""What tables say about devices: claims to them, slices and classes."""

from __future__ import annotations

from kframework.fake_api.printers.layouts import Document, layout
from kframework.fake_api.wire.plain_data import entries, mapping, text

_GROUP = "resource.k8s.io/v1"


def _state(claim: Document, now: float) -> str:
    deleted = bool(text(claim, "metadata.deletionTimestamp"))
    states = ["deleted"] if deleted else []
    if mapping(claim, "status.allocation"):
        states.append("allocated")
        if entries(claim, "status.reservedFor"):
            states.append("reserved")
    elif not deleted:
        states.append("pending")
    return ",".join(states)


#: By apiVersion and kind.
DEVICES = {
    (_GROUP, "DeviceClass"): layout("Name, Age"),
    (_GROUP, "ResourceClaim"): layout("Name, State, Age", {"State": _state}),
    (_GROUP, "ResourceClaimTemplate"): layout("Name, Age"),
    (_GROUP, "ResourceSlice"): layout("Name, Node=spec.nodeName, Driver=spec.driver, Pool=spec.pool.name, Age"),
}
