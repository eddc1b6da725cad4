"""The problems of a configuration as errors, several at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from kframework.errors import ConfigError
from kframework.objects.problem import Problem


class FieldProblems(ValueError):
    """Raised by a model's validator to report several problems at once, at paths below the model."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


class ConfigErrors(ConfigError):
    """Several configuration errors found together, one line each; `file`, `line` and `path` are the first one's."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        first = errors[0]
        super().__init__(first.message, file=first.file, line=first.line, path=first.path, nearest=first.nearest)
        self.errors: tuple[ConfigError, ...] = tuple(errors)

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors)


def raise_collected(errors: Sequence[ConfigError]) -> None:
    """Raise the errors: nothing for none, the error itself for one, ConfigErrors for several, by file and line."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ConfigErrors(sorted(errors, key=lambda error: (error.file or "", error.line or 0)))


@contextmanager
def collect_errors(errors: list[ConfigError]) -> Iterator[None]:
    """Add the configuration errors raised inside to a list, instead of letting them out."""
    try:
        yield
    except ConfigErrors as several:
        errors.extend(several.errors)
    except ConfigError as error:
        errors.append(error)
