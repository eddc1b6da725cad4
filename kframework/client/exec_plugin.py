"""Credentials from an exec plugin: a program, named in the kubeconfig, that prints a token or a certificate.

As in client-go, except that an interactive plugin runs once for each client of a process.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from base64 import b64encode
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec

from kframework.client.kubeconfig import KubeconfigEntry
from kframework.client.login import ClientConfiguration, FolderFactory, LoginError
from kframework.config.document import Json
from kframework.errors import escape_text
from kframework.objects.codec import locate_decode_error, without_nulls
from kframework.objects.problem import format_path

#: The name of the cluster's extension that a plugin receives as `spec.cluster.config`.
CONFIG_EXTENSION = "client.authentication.k8s.io/exec"

#: The fields of a kubeconfig's cluster that a plugin receives unchanged.
_CLUSTER_FIELDS = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url", "disable-compression")

#: How much of a failed plugin's stderr an error quotes.
_MAX_QUOTED_LENGTH = 300

S = TypeVar("S", bound=msgspec.Struct)


class ExecCredential(msgspec.Struct, rename="camel"):
    """The credentials that a plugin returned: a token, a certificate with its key (PEM), or both."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class _Response(msgspec.Struct, rename="camel"):
    api_version: str
    status: ExecCredential


class _Variable(msgspec.Struct):
    name: str
    value: str = ""


class _ExecConfig(msgspec.Struct, rename="camel"):
    command: str
    api_version: str
    args: list[str] = []
    env: list[_Variable] = []
    install_hint: str = ""
    interactive_mode: Literal["Never", "IfAvailable", "Always"] = "IfAvailable"
    provide_cluster_info: bool = False


async def run_plugin(user: KubeconfigEntry, cluster: KubeconfigEntry) -> ExecCredential:
    """Run the user's plugin and return its credentials; raises LoginError, and kills the plugin if cancelled."""
    config = _convert(user.values["exec"], _ExecConfig, "")
    is_interactive = config.interactive_mode != "Never" and sys.stdin is not None and sys.stdin.isatty()
    if config.interactive_mode == "Always" and not is_interactive:
        raise LoginError("exec: the plugin is interactive (interactiveMode: Always), and there is no terminal")
    info = {"apiVersion": config.api_version, "kind": "ExecCredential", "spec": {"interactive": is_interactive}}
    if config.provide_cluster_info:
        info["spec"] = {"interactive": is_interactive, "cluster": await asyncio.to_thread(_cluster_info, cluster)}
    variables = {variable.name: variable.value for variable in config.env}
    output = await _run(config, user.folder, {**variables, "KUBERNETES_EXEC_INFO": json.dumps(info)}, is_interactive)
    try:
        data = json.loads(output)
    except ValueError as error:
        raise LoginError("exec: the plugin's output is not JSON; it must print an ExecCredential") from error
    response = _convert(data, _Response, "malformed response")
    if response.api_version != config.api_version:
        raise LoginError(f"exec: the plugin answers in {response.api_version}, but apiVersion is {config.api_version}")
    status = response.status
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise LoginError("exec: malformed response: clientCertificateData and clientKeyData must come together")
    if not (status.token or status.client_key_data):
        raise LoginError("exec: malformed response: it has neither a token nor a certificate")
    return status


def configure_credential(configuration: ClientConfiguration, credential: ExecCredential, folder: FolderFactory) -> None:
    """Fill in a plugin's credentials; its certificate is written to folders created by `folder`."""
    if credential.token:
        configuration.api_key["BearerToken"] = f"Bearer {credential.token}"
    if credential.client_key_data:
        certificate, key = folder() / "client-certificate", folder() / "client-key"
        certificate.write_text(credential.client_certificate_data)
        key.write_text(credential.client_key_data)
        configuration.cert_file, configuration.key_file = str(certificate), str(key)


async def _run(config: _ExecConfig, folder: Path, variables: dict[str, str], is_interactive: bool) -> bytes:
    # As in client-go, a command with a slash is relative to the kubeconfig's folder, any other is on the PATH.
    command = str((folder / config.command).absolute()) if "/" in config.command else config.command
    pipe = asyncio.subprocess.PIPE
    try:
        plugin = await asyncio.create_subprocess_exec(
            *(command, *config.args),
            stdin=None if is_interactive else asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            env=os.environ | variables,
        )
    except OSError as error:
        problem = f"there is no {command}" if isinstance(error, FileNotFoundError) else f"cannot run {command}"
        hint = " ".join(config.install_hint.split()) or "install this plugin, or put it on the PATH"
        raise LoginError(escape_text(f"exec: {problem}; {hint}")) from error
    try:
        output, errors = await plugin.communicate()
    finally:
        with suppress(ProcessLookupError):
            plugin.kill()  # it still runs only if this is cancelled
        await plugin.wait()
    if plugin.returncode:
        text = " ".join(errors.decode(errors="replace").split())[:_MAX_QUOTED_LENGTH]
        raise LoginError(escape_text(f"exec: the plugin returned {plugin.returncode}{f': {text}' if text else ''}"))
    return output


def _cluster_info(cluster: KubeconfigEntry) -> dict[str, Json]:
    info = {name: cluster.values[name] for name in _CLUSTER_FIELDS if cluster.values.get(name)}
    authority = cluster.path("certificate-authority")
    if data := cluster.text("certificate-authority-data"):
        info["certificate-authority-data"] = data
    elif authority is not None:
        info["certificate-authority-data"] = b64encode(authority.read_bytes()).decode()
    extensions = cluster.values.get("extensions")
    for extension in extensions if isinstance(extensions, list) else ():
        if isinstance(extension, dict) and extension.get("name") == CONFIG_EXTENSION:
            info["config"] = extension.get("extension")
    return info


def _convert(data: object, struct: type[S], subject: str) -> S:
    data = without_nulls(data)
    try:
        return msgspec.convert(data, struct)
    except msgspec.ValidationError as error:
        problem = locate_decode_error(error, data)
        location = ": ".join(filter(None, ("exec", subject, format_path(problem.path))))
        raise LoginError(f"{location}: {problem.message}") from error
