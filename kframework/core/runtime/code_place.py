"""Where in a plugin's code something went wrong."""

from __future__ import annotations

import inspect
import traceback

from kframework.framework.plugin import Plugin


def code_place(plugin: Plugin, hook: str, error: BaseException | str) -> str:
    """Return file and line: of what raised, as far as the plugin's own module goes, else of the hook that answered.

    "" where there is no source.
    """
    try:
        file = inspect.getsourcefile(type(plugin))
    except TypeError:
        return ""
    if isinstance(error, BaseException):
        frames = traceback.walk_tb(error.__traceback__)
        lines = [line for frame, line in frames if frame.f_code.co_filename == file]
        if lines:
            return f"{file}:{lines[-1]}"
    method = getattr(type(plugin), hook, None)
    if not inspect.isfunction(method):
        return ""
    code = inspect.unwrap(method).__code__
    return f"{code.co_filename}:{code.co_firstlineno}"
