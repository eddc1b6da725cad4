"""Where in a plugin's code something went wrong."""

from __future__ import annotations

import inspect
import traceback

from kframework.framework.plugin import Plugin


def code_place(plugin: type[Plugin], hook: str, error: BaseException | str) -> str:
    """Return file and line: of what raised, as far as the plugin's own module goes, else of the hook that answered.

    Those of the class where it has no such hook; "" where there is no source.
    """
    try:
        file = inspect.getsourcefile(plugin)
    except (TypeError, OSError):  # a module without a file, typed in at a prompt
        return ""
    if isinstance(error, BaseException):
        frames = traceback.walk_tb(error.__traceback__)
        lines = [line for frame, line in frames if frame.f_code.co_filename == file]
        if lines:
            return f"{file}:{lines[-1]}"
    method = getattr(plugin, hook, None)
    if inspect.isfunction(method):
        code = inspect.unwrap(method).__code__
        return f"{code.co_filename}:{code.co_firstlineno}"
    try:
        return f"{file}:{inspect.getsourcelines(plugin)[1]}"
    except OSError:
        return ""
