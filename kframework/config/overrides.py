"""What a command line says in place of the configuration file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kframework.config.configuration import Configuration
from kframework.config.problems import raise_all, written
from kframework.config.validation import settings_problems
from kframework.errors import ConfigError


def overridden(
    configuration: Configuration,
    *,
    leader_election: Mapping[str, object],
    client_connection: Mapping[str, object],
    options: Mapping[str, object],
) -> Configuration:
    """Return the configuration with these fields in place of its own, by name; None leaves a field as it is.

    Raises ConfigError, or ConfigErrors when several things are wrong.
    """
    settings = configuration.settings.model_copy(
        update={
            "leader_election": configuration.settings.leader_election.model_copy(update=_given(leader_election)),
            "client_connection": configuration.settings.client_connection.model_copy(update=_given(client_connection)),
        }
    )
    own = configuration.options.model_copy(update=_given(options))
    problems = [*settings_problems(settings), *own.problems()]
    raise_all([ConfigError(problem.message, path=written(problem.path)) for problem in problems])
    return replace(configuration, settings=settings, options=own)


def _given(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}
