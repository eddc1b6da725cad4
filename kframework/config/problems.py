"""What can be wrong with a value, in the words of Kubernetes' field errors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from kframework.errors import ConfigError, nearest

#: Field names and list indices, from the outermost on.
ProblemPath = tuple[str | int, ...]

_SHOWN = 100  # characters of a value that a message quotes


@dataclass(frozen=True)
class Problem:
    """Something wrong with the value at `path`; `nearest` is the valid name that was probably meant."""

    path: ProblemPath
    message: str
    nearest: str | None = None


class FieldProblems(ValueError):
    """Raised by a model's validator to report several problems at once, at paths below the model."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("; ".join(f"{written(problem.path)}: {problem.message}" for problem in self.problems))


class ConfigErrors(ConfigError):
    """Several configuration errors found together, one line each; `file`, `line` and `path` are the first one's."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        first = errors[0]
        super().__init__(first.message, file=first.file, line=first.line, path=first.path, nearest=first.nearest)
        self.errors: tuple[ConfigError, ...] = tuple(errors)

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)


def raise_all(errors: Sequence[ConfigError]) -> None:
    """Raise the errors: nothing for none, the error itself for one, ConfigErrors for several, by file and line."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ConfigErrors(sorted(errors, key=lambda error: (error.file or "", error.line or 0)))


def written(path: ProblemPath) -> str:
    """Write a path as Kubernetes does: `profiles[0].plugins.score.enabled[1].name`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def invalid(path: ProblemPath, value: object, detail: str) -> Problem:
    """Report a value that breaks a rule."""
    return Problem(path, f"Invalid value: {shown(value)}: {detail}")


def required(path: ProblemPath, detail: str = "") -> Problem:
    """Report a value that is missing."""
    return Problem(path, f"Required value: {detail}" if detail else "Required value")


def duplicate(path: ProblemPath, value: object) -> Problem:
    """Report a value that may stand only once."""
    return Problem(path, f"Duplicate value: {shown(value)}")


def forbidden(path: ProblemPath, detail: str) -> Problem:
    """Report a value that may not be given here."""
    return Problem(path, f"Forbidden: {detail}")


def not_supported(path: ProblemPath, value: str, supported: Sequence[str]) -> Problem:
    """Report a value that is none of the supported ones."""
    names = ", ".join(shown(name) for name in supported)
    return Problem(path, f"Unsupported value: {shown(value)}: supported values: {names}", nearest(value, supported))


def shown(value: object) -> str:
    """Write a value into a message: as JSON, cut off where it would fill the line."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


@contextmanager
def collecting(errors: list[ConfigError]) -> Iterator[None]:
    """Add the configuration errors raised inside to a list, instead of letting them out."""
    try:
        yield
    except ConfigErrors as several:
        errors.extend(several.errors)
    except ConfigError as error:
        errors.append(error)
