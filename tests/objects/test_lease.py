"""Leases keep every field that leader election needs."""

from __future__ import annotations

from kframework.objects.lease import Lease
from tests.objects.conftest import RoundTrip


def test_lease_encodes_and_decodes(round_trip: RoundTrip) -> None:
    lease = round_trip(
        Lease,
        {
            "metadata": {"name": "kframework", "namespace": "kube-system"},
            "spec": {
                "holderIdentity": "",
                "leaseDurationSeconds": 15,
                "acquireTime": "2026-01-02T03:04:05.000000Z",
                "renewTime": "2026-01-02T03:04:05.000000Z",
                "leaseTransitions": 0,
            },
        },
    )
    assert lease.spec.renew_time == "2026-01-02T03:04:05.000000Z"
    assert lease.spec.holder_identity == ""
