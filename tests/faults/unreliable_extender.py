"""An extender that lets all nodes pass, and fails as any service does: no answer, a late one, a refusal, nonsense."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from random import Random

from kframework.clock import Clock
from kframework.core.cycle.suspendable import ExtenderError
from kframework.scheduler.extender_http import HttpExtenderTransport

__all__ = ["UnreliableExtender"]

#: How often it fails, and how long it takes at most when it is late, in seconds.
RATE, LATE = 0.2, 3.0


class UnreliableExtender(HttpExtenderTransport):
    """A line to an extender in this process, which is well from the moment `until` on, in seconds since 1970."""

    def __init__(self, random: Random, clock: Clock, counts: Counter[str]) -> None:
        self.until = math.inf
        self._counts = counts
        self._random = random
        self._clock = clock

    async def start(self) -> None:
        """Do nothing: there is no connection."""

    async def close(self) -> None:
        """Do nothing: there is no connection."""

    async def send(self, verb: str, request: bytes) -> bytes:
        """Answer, or fail."""
        if self._clock.now() < self.until and self._random.random() < RATE:
            fault = self._random.choice(["error", "late", "nonsense", "refusal"])
            self._counts[f"extender: {fault}"] += 1
            if fault == "error":
                raise ExtenderError("no answer")
            if fault == "nonsense":
                return b'{"nodenames": 7'
            if fault == "refusal" and verb == "filter":
                return b'{"error": "the licence server is away"}'
            await asyncio.sleep(self._random.uniform(0.0, LATE))
        return json.dumps(self._answer(verb, json.loads(request))).encode()

    def _answer(self, verb: str, asked: dict[str, object]) -> object:
        names = asked.get("NodeNames")
        if verb == "filter":
            return {"NodeNames": names}
        if verb == "prioritize":
            assert isinstance(names, list)
            return [{"Host": name, "Score": len(name) % 10} for name in names]
        return {"NodeNameToMetaVictims": asked["NodeNameToMetaVictims"]}
