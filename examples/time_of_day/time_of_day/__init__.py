"""TimeOfDay: pods that can wait run in the hours when others sleep."""

from __future__ import annotations

from time_of_day.hours import RUN, TimeOfDay, TimeOfDayArgs

__all__ = ["RUN", "TimeOfDay", "TimeOfDayArgs"]
