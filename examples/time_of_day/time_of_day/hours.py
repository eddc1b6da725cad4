"""TimeOfDay: hold pods that can wait until the hours when others sleep.

A pod says that it can wait by its label `time-of-day.example.com/run: off-peak`; which hours these are, the Args say.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Iterator
from datetime import datetime, time, timedelta
from typing import Annotated, Self
from zoneinfo import ZoneInfo

from pydantic import Field, model_validator

from kframework import (
    ActionType,
    ClusterEvent,
    EventResource,
    Handle,
    PendingPod,
    Plugin,
    PluginArgs,
    SourceChange,
    Status,
    hookimpl,
    unschedulable,
)

__all__ = ["RUN", "TimeOfDay", "TimeOfDayArgs"]

RUN = "time-of-day.example.com/run"

OFF_PEAK = "off-peak"

#: Text, so in quotes: without them 20:00 is the number 1200 to some readers of YAML.
HourText = Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]


class TimeOfDayArgs(PluginArgs):
    """What `pluginConfig` may say: it is off-peak each day `from` an hour `to` another, in a `timeZone`."""

    start: HourText = Field("20:00", alias="from")
    end: HourText = Field("06:00", alias="to")
    time_zone: ZoneInfo = ZoneInfo("UTC")

    @model_validator(mode="after")
    def check_hours(self) -> Self:
        if self.start == self.end:
            raise ValueError("from and to are the same, so it would never be off-peak")
        return self

    def spans(self, now: float) -> Iterator[tuple[float, float]]:
        """Yield yesterday's, today's and tomorrow's off-peak hours, in seconds since 1970."""
        start, end = time.fromisoformat(self.start), time.fromisoformat(self.end)
        today = datetime.fromtimestamp(now, self.time_zone).date()
        for days in (-1, 0, 1):
            first, last = today + timedelta(days), today + timedelta(days + (end < start))
            # Each is what the clocks of its own day show, so a night in which they are put back is an hour longer.
            yield (
                datetime.combine(first, start, self.time_zone).timestamp(),
                datetime.combine(last, end, self.time_zone).timestamp(),
            )


class TimeOfDay(Plugin[TimeOfDayArgs]):
    """Hold pods that can wait until it is off-peak."""

    name = "TimeOfDay"

    def __init__(self, args: TimeOfDayArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        # No event tells that time has passed, but a source does, and it stands in recordings: a replay finds the hours
        # where they were. What it says holds until it says otherwise; before it says anything, marked pods wait.
        self.hours = handle.source(
            "hours", bool, self.watch_hours, stale_after=math.inf, when_stale="ignore", wakes_pod=self.is_off_peak
        )

    async def watch_hours(self) -> AsyncGenerator[dict[str, bool]]:
        while True:
            now = self.handle.clock.now()
            spans = [*self.args.spans(now)]
            yield {OFF_PEAK: any(start <= now < end for start, end in spans)}
            change = min(moment for span in spans for moment in span if moment > now)
            await asyncio.sleep(change - self.handle.clock.now())

    def is_off_peak(self, pod: PendingPod, change: SourceChange[bool]) -> bool:
        return change.values.get(OFF_PEAK, False)

    @hookimpl
    def pre_enqueue(self, pod: PendingPod) -> Status | None:
        # A pod that is held here costs no attempt, not even the one in five minutes of a pod that found no node.
        if pod.labels.get(RUN) != OFF_PEAK or self.hours.get(OFF_PEAK, False):
            return None
        args = self.args
        return unschedulable(f"waits for the hours from {args.start} to {args.end} ({args.time_zone.key})")

    @hookimpl
    def events_to_register(self) -> list[ClusterEvent]:
        # Beside the hour, which the source tells, only a change of the pod's label helps.
        return [ClusterEvent(EventResource.TARGET_POD, ActionType.UPDATE_POD_LABEL)]
