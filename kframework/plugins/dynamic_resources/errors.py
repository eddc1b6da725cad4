"""Errors of device allocation other than a lack of devices."""

from __future__ import annotations

from typing import Literal

from kframework.errors import ClusterError, KFrameworkError

#: The outcomes of waiting for devices to be ready; an error means that the wait was aborted.
WaitResult = Literal["success", "failure", "timeout", "error"]


class AllocationError(KFrameworkError):
    """Raised when a claim or what it refers to is invalid, so that its devices cannot be determined."""


class InvalidPools(AllocationError):
    """Raised when there are no devices for a claim, and a pool that its node can access is invalid."""

    def __init__(self) -> None:
        super().__init__("invalid resource pools were encountered")


class ClaimWriteError(KFrameworkError):
    """Raised when a claim cannot be written; `status` is the API's answer, 0 for no answer."""

    def __init__(self, what: str, refusal: ClusterError | None = None) -> None:
        super().__init__(what if refusal is None else f"{what}: {refusal}")
        #: 422 if the request was invalid and not sent.
        self.status: int = 422 if refusal is None else refusal.status
        #: Whether an earlier identical request got no answer: it may have succeeded, and caused this error.
        self.in_doubt: bool = False


class DevicesNotReady(KFrameworkError):
    """Raised when devices cannot be made ready for a claim, or not in time; `result` tells which."""

    def __init__(self, what: str, result: WaitResult) -> None:
        super().__init__(what)
        self.result: WaitResult = result
