"""Small worlds; each has one thing happening."""

from __future__ import annotations

from tests.interleavings.explorer import World
from tests.interleavings.worlds.binding import binding
from tests.interleavings.worlds.close import close
from tests.interleavings.worlds.extending import extending
from tests.interleavings.worlds.lease import lease
from tests.interleavings.worlds.permit import permit
from tests.interleavings.worlds.preemption import preemption
from tests.interleavings.worlds.reload import reload
from tests.interleavings.worlds.watch import watch

__all__ = ["WORLDS"]

WORLDS: dict[str, World] = {
    world.__name__: world for world in (binding, permit, preemption, lease, close, watch, extending, reload)
}
