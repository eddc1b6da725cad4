"""Private data is not in a recording, and yet its changes are changes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kframework.objects import ApiObject, kind, kinds
from kframework.observe.recording.file import LineEncoder
from kframework.state.inbox import Upserted
from kframework.testing import make_pod

#: What `kubectl apply` leaves on an object: the whole manifest, with whatever stands in the containers' environment.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def encoded(scribe: LineEncoder, obj: ApiObject) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(scribe.line((0.0, Upserted(obj))))["with"]
    return found


def applied(manifest: str) -> ApiObject:
    return make_pod("p", annotations={LAST_APPLIED: manifest, "pv.kubernetes.io/mine": "kept"})


def test_object_is_written_unchanged() -> None:
    assert encoded(LineEncoder(), make_pod("p", annotations={"pv.kubernetes.io/mine": "kept"}))["metadata"][
        "annotations"
    ] == {"pv.kubernetes.io/mine": "kept"}


def test_applied_manifests_are_fingerprinted() -> None:
    scribe = LineEncoder()
    one, same, other = (
        encoded(scribe, applied(manifest))["metadata"]["annotations"] for manifest in ("hunter2", "hunter2", "hunter3")
    )
    assert one == same != other
    assert one["pv.kubernetes.io/mine"] == "kept" and "hunter2" not in one[LAST_APPLIED]


def test_fingerprints_differ_between_processes() -> None:
    assert encoded(LineEncoder(), applied("hunter2")) != encoded(LineEncoder(), applied("hunter2"))


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> type[ApiObject]:
    """Declare Secrets, as a plugin may that watches them."""
    for registry in ("_BY_STRUCT", "_BY_NAME"):
        monkeypatch.setattr(kinds, registry, dict(getattr(kinds, registry)))
    kinds._BY_NAME.pop(("v1", "Secret"), None)  # an installed distribution may have declared them

    @kind("v1", "secrets")
    class Secret(ApiObject, frozen=True, kw_only=True):
        data: dict[str, str] = msgspec.field(default_factory=dict)
        type: str = ""

    return Secret


def test_secret_values_are_fingerprinted(secret: type[ApiObject]) -> None:
    written = encoded(LineEncoder(), secret(data={"password": "aHVudGVyMg=="}, type="Opaque"))  # type: ignore[call-arg]  # its struct is a test's
    assert written["kind"] == "Secret" and written["type"] == "Opaque"
    assert list(written["data"]) == ["password"] and "aHVudGVyMg" not in written["data"]["password"]
