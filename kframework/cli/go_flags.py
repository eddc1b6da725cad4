"""kube-scheduler's command line, so that the one in a stock manifest works unchanged.

Go spells some flags differently: `--leader-elect=false`, `-v=2`. Flags of kube-scheduler without a counterpart here are
accepted, and reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from typer import Context
from typer.core import TyperCommand

from kframework.verbosity import notify_user

#: Flags of kube-scheduler that take a value, and mean nothing here.
_WITH_VALUE = """
    cert-dir client-ca-file http2-max-streams-per-connection kube-api-content-type requestheader-allowed-names
    requestheader-client-ca-file requestheader-extra-headers-prefix requestheader-group-headers
    requestheader-uid-headers requestheader-username-headers tls-cipher-suites tls-curve-preferences tls-min-version
    tls-sni-cert-key allow-metric-labels allow-metric-labels-manifest disabled-metrics
    log-flush-frequency log-json-info-buffer-size log-json-split-stream log-text-info-buffer-size log-text-split-stream
    min-compatibility-version show-hidden-metrics-for-version vmodule
"""

#: The same for boolean flags.
_SWITCHES = """
    authentication-skip-lookup authentication-tolerate-lookup-failure contention-profiling disable-http2-serving
    permit-address-sharing permit-port-sharing profiling
"""


def flags(with_value: str, switches: str) -> dict[str, bool]:
    """Return flags with whether they take a value, from the names of both kinds."""
    return {f"--{name}": True for name in with_value.split()} | {f"--{name}": False for name in switches.split()}


#: Flags of kube-scheduler that are ignored here, and whether they take a value.
IGNORED_FLAGS: dict[str, bool] = flags(_WITH_VALUE, _SWITCHES)

#: Go's spellings of true and false.
_TRUE, _FALSE = ("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False")


class GoFlagsCommand(TyperCommand):
    """A command that understands kube-scheduler's command line; `context.obj` lists the flags without a meaning."""

    ignored_flags: ClassVar[Mapping[str, bool]] = IGNORED_FLAGS

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:  # type: ignore[override]  # typer hides its base
        switches = {option for each in self.params for option in each.opts if each.secondary_opts}
        understood, ctx.obj = translate_arguments(args, switches, self.ignored_flags)
        return super().parse_args(ctx, understood)


def warn_ignored_flags(names: Sequence[str], whose: str) -> None:
    """Report ignored flags of another scheduler."""
    if names:
        notify_user("notice", f"flags of {whose} ignored here: {', '.join(dict.fromkeys(names))}")


def translate_arguments(
    arguments: Sequence[str], switches: set[str], ignored_flags: Mapping[str, bool] = IGNORED_FLAGS
) -> tuple[list[str], list[str]]:
    """Return the arguments as this command line spells them, and the names of ignored flags.

    `switches` can be turned off by `--no-`; `ignored_flags` maps ignored flags to whether they take a value.
    """
    understood, ignored = [], []
    rest = iter(arguments)
    for argument in rest:
        name, equals, value = argument.partition("=")
        if argument == "--":
            understood += [argument, *rest]
        elif name in ignored_flags:
            ignored.append(name)
            if ignored_flags[name] and not equals:
                next(rest, None)
        elif equals and name == "-v":
            understood += [name, value]
        elif equals and name in switches and value in _TRUE:
            understood.append(name)
        elif equals and name in switches and value in _FALSE:
            understood.append(f"--no-{name.removeprefix('--')}")
        else:
            understood.append(argument)
    return understood, ignored
