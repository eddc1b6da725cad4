"""The kinds that installed distributions bring along: the modules that declare them, found by entry point.

A plugin declares its kinds when it is loaded. Where no configuration names a plugin, and of distributions that hold no
plugin, this makes their kinds known all the same: to whoever reads cluster files, and to the fake API.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from kframework.errors import ConfigError, in_words

#: The entry-point group in which distributions name modules that declare kinds when they are imported.
GROUP = "kframework.kinds"


def declare_installed_kinds() -> list[ConfigError]:
    """Import the modules that declare kinds; return what went wrong with some of them, which harms no other."""
    problems = []
    for entry_point in sorted(entry_points(group=GROUP), key=lambda each: (each.name, each.value)):
        try:
            entry_point.load()
        except Exception as error:
            problems.append(_problem(entry_point, error))
    return problems


def _problem(entry_point: EntryPoint, error: Exception) -> ConfigError:
    distribution = entry_point.dist
    source = f" (from {distribution.name} {distribution.version})" if distribution is not None else ""
    why = str(error) if isinstance(error, ConfigError) else in_words(error)
    return ConfigError(f"the kinds of {entry_point.value!r}{source} are not all known: {why}")
