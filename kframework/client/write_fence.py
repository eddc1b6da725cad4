"""Whether this process may still write to the cluster: not once it was stopped, nor once its lease is over.

A write passes the fence where it begins, so that whoever asks for it learns early, and again right before it leaves the
process. In between it may wait long for its turn, for a connection, or with the whole process, and another scheduler
leads meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from kframework.client.transport import Request, Response, Transport, TransportLayer
from kframework.errors import ClusterError

#: The reason of the ClusterError that whoever writes gets when the fence is closed.
STOPPED = "Stopped"


class WriteFence:
    """Open until it is closed for good; any thread may use it."""

    def __init__(self) -> None:
        self._closed = self._handed_over = False
        self._holds: Callable[[], bool] = lambda: True

    def close(self) -> None:
        """Let nothing be written any more."""
        self._closed = True

    def hand_over(self) -> None:
        """Let nothing but events be written any more: another scheduler may lead from now on, whom they disturb not."""
        self._handed_over = True

    def only_while(self, holds: Callable[[], bool]) -> None:
        """Let nothing be written when this does not hold, though nobody has closed the fence yet."""
        self._holds = holds

    @property
    def is_open(self) -> bool:
        """Whether all may be written."""
        return not (self._closed or self._handed_over) and self._holds()

    def check(self) -> None:
        """Raise ClusterError when nothing may be written, or events only."""
        if not self.is_open:
            raise _stopped()

    def check_event(self) -> None:
        """Raise ClusterError when not even an event may be written."""
        if self._closed or not (self._handed_over or self._holds()):
            raise _stopped()

    def __repr__(self) -> str:
        if self._closed or not (self._handed_over or self._holds()):
            return "<WriteFence closed>"
        return f"<WriteFence {'handed over' if self._handed_over else 'open'}>"


def _stopped() -> ClusterError:
    message = "this scheduler has stopped, or lost its lease, and writes nothing any more"
    return ClusterError(message, status=403, reason=STOPPED)


class FencedTransport(TransportLayer):
    """A transport that carries what writes only while its fence is open.

    It stands behind all that lets a request wait, or sends it again. A watch never writes.
    """

    def __init__(self, transport: Transport, fence: WriteFence) -> None:
        super().__init__(transport)
        self._fence = fence

    async def send(self, request: Request) -> Response:
        if request.writes:
            check = self._fence.check_event if request.is_event else self._fence.check
            check()
            request = replace(request, may_leave=check)
        return await self._inner.send(request)
