"""Why devices cannot be allocated, where that is nobody's lack of devices."""

from __future__ import annotations

from kframework.errors import ClusterError, KFrameworkError
from kframework.plugins.dynamic_resources.observer import WaitResult


class AllocationError(KFrameworkError):
    """Raised when it cannot be said which devices a claim could get, as something in it or in what it asks is wrong."""


class InvalidPools(AllocationError):
    """Raised when there are no devices for a claim, and a pool that its node can reach is invalid."""

    def __init__(self) -> None:
        super().__init__("invalid resource pools were encountered")


class ClaimWriteError(KFrameworkError):
    """Raised when a claim cannot be written; `status` is what the API answered, 0 for no answer."""

    def __init__(self, what: str, refusal: ClusterError | None = None) -> None:
        super().__init__(what if refusal is None else f"{what}: {refusal}")
        #: 422 where nobody was asked, as it makes no sense.
        self.status: int = 422 if refusal is None else refusal.status
        #: Whether the same was asked before and got no answer: then it may have been done, and this comes of it.
        self.in_doubt: bool = False


class DevicesNotReady(KFrameworkError):
    """Raised when devices cannot be made ready for a claim, or were not in time; `result` is which of it."""

    def __init__(self, what: str, result: WaitResult) -> None:
        super().__init__(what)
        self.result: WaitResult = result
