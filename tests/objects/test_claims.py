"""How pods, claims and volumes belong together; matching itself is tried in state/test_pod_volumes.py."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kframework.objects import ObjectMeta, OwnerReference, PersistentVolumeClaim, Volume
from kframework.objects.claims import (
    claim_class,
    claim_name,
    is_bound,
    is_claimed_by,
    is_controlled_by,
    requested_storage,
    storage_capacity,
    volume_class,
)
from tests.support.storage import claim, claim_volumes, ephemeral, reference, volume

BETA = "volume.beta.kubernetes.io/storage-class"


@pytest.mark.parametrize(
    ("mount", "name"),
    [(claim_volumes("data")[0], "data"), (ephemeral("scratch"), "web-scratch"), (Volume(name="plain"), None)],
)
def test_claim_of_a_volume_is_found(mount: Volume, name: str | None) -> None:
    assert claim_name("web", mount) == name


def test_old_annotation_names_the_class_first() -> None:
    assert (claim_class(claim(of=None)), claim_class(claim(of=""))) == ("", "")
    assert (claim_class(claim()), volume_class(volume())) == ("local", "local")
    assert claim_class(claim(annotations={BETA: "old"})) == "old"
    assert volume_class(volume(metadata={"annotations": {BETA: "old"}})) == "old"


@pytest.mark.parametrize(
    ("of", "bound"),
    [
        (claim(bound="v"), True),
        (claim(volumeName="v"), False),
        (claim(annotations={"pv.kubernetes.io/bind-completed": "yes"}), False),
    ],
)
def test_claim_is_bound_when_the_controller_is_done(of: PersistentVolumeClaim, bound: bool) -> None:
    assert is_bound(of) is bound


@pytest.mark.parametrize(
    ("kept_for", "mine"),
    [
        (None, False),
        (reference(), True),
        (reference(uid=""), True),
        (reference(uid="other"), False),
        (reference("other"), False),
        (reference(namespace="other"), False),
    ],
)
def test_volume_is_reserved_for_its_claim(kept_for: Mapping[str, str] | None, mine: bool) -> None:
    assert is_claimed_by(volume(kept_for=kept_for), claim()) is mine


def test_only_the_managing_owner_controls() -> None:
    owners = (OwnerReference(uid="a"), OwnerReference(uid="b", controller=True))
    metadata = ObjectMeta(owner_references=owners)
    assert [is_controlled_by(metadata, uid) for uid in ("a", "b", "c")] == [False, True, False]
    assert not is_controlled_by(ObjectMeta(), "")


def test_sizes_are_exact() -> None:
    assert requested_storage(claim(size="1.5Ki")) == 1536 * 10**9 == storage_capacity(volume(size="1536"))
    assert requested_storage(claim(size=None)) == 0
    assert requested_storage(claim(size="1Gi")) < storage_capacity(volume(size="1.1Gi"))
