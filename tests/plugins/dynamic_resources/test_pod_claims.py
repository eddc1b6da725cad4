"""Which claims a pod uses, why one cannot be used, and which pods wait for one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from kframework.objects import Pod, ResourceClaim
from kframework.plugins.dynamic_resources.pod_claims import (
    ClaimProblem,
    ClaimUsers,
    ExtendedResourceClaims,
    claims_of,
    is_reserved_for,
)
from kframework.state.objects import ObjectStore
from kframework.testing import make_pod, pending_pod, stub_handle
from kframework.values.feature_gates import DEFAULT_GATES


def a_pod(*claims: dict[str, Any], told: dict[str, str | None] | None = None, name: str = "web") -> Pod:
    """Make a pod of these claims, with the names of those that templates make."""
    pod = msgspec.to_builtins(make_pod(name))
    pod["spec"]["resourceClaims"] = [{"name": f"r{number}", **each} for number, each in enumerate(claims)]
    statuses = [{"name": each, "resourceClaimName": called} for each, called in (told or {}).items()]
    pod["status"]["resourceClaimStatuses"] = statuses
    return msgspec.convert(pod, Pod)


def a_claim(name: str, owner: str = "", *, namespace: str = "default", **metadata: Any) -> ResourceClaim:
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": owner, "controller": True}] if owner else []
    said = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "ownerReferences": owners, **metadata}
    return msgspec.convert({"metadata": said}, ResourceClaim)


def store(*claims: ResourceClaim) -> ObjectStore[ResourceClaim]:
    made = ObjectStore[ResourceClaim]()
    for each in claims:
        made.put(each.metadata, each)
    return made


NAMED, MADE = {"resourceClaimName": "c"}, {"resourceClaimTemplateName": "t"}
WEB = make_pod("web").metadata.uid
DELETED = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("pod", "claims", "found"),
    [
        (a_pod(), [], []),
        (a_pod(NAMED), [a_claim("c")], ["c"]),
        (a_pod(NAMED), [], 'could not find ResourceClaim "default/c"'),
        (a_pod(NAMED), [a_claim("c", namespace="other")], 'could not find ResourceClaim "default/c"'),
        (a_pod(NAMED), [a_claim("c", "somebody")], ["c"]),
        (a_pod(NAMED), [a_claim("c", deletionTimestamp=DELETED)], 'resourceclaim "c" is being deleted'),
        (a_pod(MADE), [], 'pod "default/web": ResourceClaim not created yet'),
        (a_pod(MADE, told={"r0": None}), [], []),
        (a_pod(MADE, NAMED, told={"r0": None}), [a_claim("c")], ["c"]),
        (a_pod(MADE, told={"r0": "made"}), [a_claim("made", WEB)], ["made"]),
        (a_pod(MADE, NAMED, told={"r0": "made"}), [a_claim("c"), a_claim("made", WEB)], ["made", "c"]),
        (
            a_pod(MADE, told={"r0": "made"}),
            [a_claim("made", "somebody")],
            "ResourceClaim default/made was not created for Pod default/web (Pod is not owner)",
        ),
        (a_pod(MADE, told={"r0": "made"}), [], 'could not find ResourceClaim "default/made"'),
        (a_pod({}), [], 'pod "default/web", spec.resourceClaim "r0": none of the supported fields are set'),
        # The first that cannot be used is told.
        (a_pod(NAMED, MADE), [], 'could not find ResourceClaim "default/c"'),
        (a_pod(MADE, NAMED), [], 'pod "default/web": ResourceClaim not created yet'),
    ],
)
def test_claims_of_a_pod(pod: Pod, claims: Sequence[ResourceClaim], found: list[str] | str) -> None:
    try:
        names: list[str] | str = [
            each.metadata.name for each in claims_of(pending_pod(pod), store(*claims), DEFAULT_GATES)
        ]
    except ClaimProblem as problem:
        names = str(problem)
    assert names == found


def test_claim_is_reserved_for_the_pods_in_its_status() -> None:
    reserved = [{"resource": "pods", "name": "web", "uid": WEB}]
    claim = msgspec.convert({"metadata": {"name": "c"}, "status": {"reservedFor": reserved}}, ResourceClaim)
    assert is_reserved_for(claim, WEB)
    assert not is_reserved_for(claim, "other")


def test_claims_that_schedulers_made() -> None:
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    first, second = (a_claim(name, WEB, annotations=annotations) for name in ("first", "second"))
    claims, web = store(first, a_claim("c", WEB)), pending_pod(make_pod("web"))
    made = ExtendedResourceClaims(claims)
    assert (made.claim_of(web), made.claim_of(pending_pod(make_pod("other")))) == (first, None)
    claims.put(second.metadata, second)
    claims.remove(first.metadata)
    assert made.claim_of(web) == second
    claims.remove(second.metadata)
    assert made.claim_of(web) is None


def test_pods_that_wait_for_a_claim() -> None:
    pods = [a_pod(NAMED, name=f"web-{number}") for number in range(3)]
    users = ClaimUsers(stub_handle(pods=pods))
    for each in (*pods, make_pod("plain")):
        users.add(pending_pod(each))
    claim = a_claim("c")
    assert list(users.pods_of(claim)) == [pod.metadata.uid for pod in pods]
    assert list(users.pods_of(a_claim("c", namespace="other"))) == []
    # Those that wait no more are forgotten in time, those that do are not.
    for number in range(2000):
        users.add(pending_pod(a_pod({"resourceClaimName": f"d{number}"}, name=f"gone-{number}")))
    assert set(users.pods_of(claim)) >= {pod.metadata.uid for pod in pods}
    assert not users.pods_of(a_claim("d0"))
