"""What the engine hears between two sessions of what it has done outside, beside bindings."""

from __future__ import annotations

from kframework.engine import OwnMessage


class EvictionFailed(OwnMessage, frozen=True):
    """A victim, by its uid, could not be sent away."""

    uid: str


class StatusNotWritten(OwnMessage, frozen=True):
    """The status of a pod group or a queue, by its uid, could not be written."""

    uid: str


class Reconfigured(OwnMessage, frozen=True):
    """Another configuration, this text, holds from the next session on."""

    text: str
