"""The lock by which one of several schedulers leads (coordination.k8s.io/v1)."""

from __future__ import annotations

from kframework.objects.meta import ApiObject, ApiStruct


class LeaseSpec(ApiStruct, frozen=True, kw_only=True):
    """The `spec` of a lease; times have exactly six decimals of a second."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(ApiObject, frozen=True, kw_only=True):
    """A lease: its holder is the leader until it expires."""

    spec: LeaseSpec = LeaseSpec()
