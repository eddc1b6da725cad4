"""The rooms of kframework: the one list that imports, the architecture page and CONTRIBUTING are held to."""

from __future__ import annotations

#: Ground first: a module imports only from the rooms before its own, and from its own. Of a room and a room in it, such
#: as `core` and `core.cycle`, the longer name counts.
ROOMS = (
    *("_version", "lazy_names", "errors", "verbosity", "clock"),
    *("objects", "cel", "values", "state", "framework", "config"),
    *("core.queue", "core.runtime", "core.cycle", "core.groups", "core.preemption", "core"),
    *("plugins", "client", "in_memory", "scheduler", "observe", "explain", "simulation"),
    *("capacity", "gym", "process", "fake_api", "testing", "cli", "engine", "__main__"),
)
