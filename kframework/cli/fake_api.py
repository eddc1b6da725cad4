"""`kframework fake-api`: a cluster in memory that kubectl and schedulers can talk to."""

from __future__ import annotations

import asyncio
import shlex
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from kframework.cli.options import (
    Controllers,
    Devices,
    EmulatedVersion,
    FeatureGateSettings,
    Objects,
    Port,
    Strict,
    Verbosity,
    WriteKubeconfig,
    emulated_minor,
    parse_gates,
)
from kframework.simulation.inputs import read_cluster


class AuthorizationMode(Enum):
    """The authorization modes, as in kube-apiserver's flag."""

    ALWAYS_ALLOW = "AlwaysAllow"
    RBAC = "RBAC"


def command(
    filenames: Objects,
    devices: Devices = None,
    strict: Strict = False,
    port: Port = 0,
    bind_address: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="Address to serve on: 127.0.0.1 for this machine only, 0.0.0.0 for all."),
    ] = "127.0.0.1",
    write_kubeconfig: WriteKubeconfig = None,
    tls: Annotated[bool, typer.Option("--tls", help="Serve over TLS; the kubeconfig contains the CA.")] = False,
    token_auth_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help='Authenticate bearer tokens: lines of token,user,uid,"group1,group2".'),
    ] = None,
    authorization_mode: Annotated[
        AuthorizationMode, typer.Option(help="Allow everything, or what the roles in the cluster allow.")
    ] = AuthorizationMode.ALWAYS_ALLOW,
    controllers: Controllers = "*",
    *,
    feature_gates: FeatureGateSettings,
    state_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Save the cluster in this file, and restore it at the next start, instead of reading -f.",
        ),
    ] = None,
    emulated_version: EmulatedVersion = None,
    verbosity: Verbosity = 0,
) -> None:
    """Serve a cluster in memory as a Kubernetes API.

    Prints the line that points kubectl to it, and runs until SIGTERM or Ctrl-C. Bound pods run, claims get volumes, and
    workloads such as Deployments and Jobs get pods. It contains no scheduler: use `kframework run`. Every client that
    reaches the port may do anything; with --token-auth-file or --authorization-mode RBAC, clients need a token, such as
    that in the kubeconfig.
    """
    from kframework.fake_api.access import AlwaysAllow, RbacAuthorizer
    from kframework.fake_api.authentication import read_tokens
    from kframework.fake_api.http_server import ServerOptions, serve_until_signal
    from kframework.fake_api.state_file import StateFile
    from kframework.values.feature_gates import LATEST_MINOR, FeatureGates

    gates = FeatureGates(emulated_minor(emulated_version) or LATEST_MINOR, parse_gates(feature_gates) or {})
    for problem in gates.problems():
        raise typer.BadParameter(problem.message, param_hint="'--feature-gates'")
    publication = ServerOptions(
        bind_address=bind_address,
        port=port,
        kubeconfig=write_kubeconfig,
        tls=tls,
        tokens=read_tokens(token_auth_file) if token_auth_file else None,
        authorize=RbacAuthorizer if authorization_mode is AuthorizationMode.RBAC else AlwaysAllow,
        feature_gates=gates,
    )
    manifest = read_cluster(filenames, devices=devices, strict=strict)
    state = StateFile(state_file) if state_file else None
    asyncio.run(serve_until_signal(manifest, publication, print_kubeconfig, controllers.split(","), state))


def print_kubeconfig(kubeconfig: Path) -> None:
    """Print the line that points kubectl to a cluster."""
    typer.echo(f"export KUBECONFIG={shlex.quote(str(kubeconfig))}")
