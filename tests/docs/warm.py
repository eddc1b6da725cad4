"""A `kframework` that has its imports behind it: one process that has done them forks for each command.

To start Python and to import what a command needs takes a second of a core, and the documents show 150 commands. Each
is a process of its own still, with the folder, the variables, the files and the packages of the reader.
"""

from __future__ import annotations

import json
import os
import signal
import site
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the process has none of the tests' own modules
    from tests.examples.clean_environment import CleanEnvironment

__all__ = ["warm", "warm_up"]

#: What most commands import, or nearly all of it; the plugins that all profiles have come to it.
_IMPORTED = (
    "anyio._backends._asyncio",
    "kframework.cli.config",
    "kframework.cli.simulate",
    "kframework.core.runtime.programmatic",
    "kframework.explain.remedies",
    "kframework.objects.openapi.unknown_fields",
    "kframework.objects.yaml_documents",
    "kframework.observe.recording.diff",
    "kframework.observe.recording.engines",
    "kframework.simulation.simulation",
    "numpy.ma",
    "typer._adapters",
)

#: What is typed: it hands all that it has to that process, but for what is to be ended by a signal.
_TYPED = """\
#!{python} -ISE
import json, os, socket, sys
if sys.argv[1:2] == ["run"]:
    os.execv(sys.executable, [sys.executable, "-m", "kframework", *sys.argv[1:]])
with socket.socket(socket.AF_UNIX) as server:
    server.connect("{address}")
    order = json.dumps([os.getcwd(), dict(os.environ), sys.argv])
    socket.send_fds(server, [order.encode()], [0, 1, 2])
    sys.exit(int(server.recv(16)))
"""


@contextmanager
def warm(environment: CleanEnvironment, folder: Path) -> Iterator[Path]:
    """Have a process of this environment import kframework; yield its address."""
    address = folder / "socket"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(address))
        server.listen()
        command = [str(environment.bin / "python"), __file__, str(server.fileno())]
        with subprocess.Popen(command, cwd=folder, env=environment.variables(), pass_fds=[server.fileno()]) as process:
            try:
                yield address
            finally:
                process.kill()


def warm_up(environment: CleanEnvironment, address: Path) -> None:
    """Have the commands of an environment on top of that one run by that process."""
    (environment.bin / "kframework").write_text(_TYPED.format(python=environment.bin / "python", address=address))


def _serve(server: socket.socket) -> None:
    for module in _IMPORTED:
        import_module(module)
    for plugin in entry_points(group="kframework.plugins"):
        if plugin.value.startswith("kframework."):
            plugin.load()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that answer
    while True:
        client, _ = server.accept()
        if os.fork() == 0:
            _answer(client)
        client.close()


def _answer(client: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    order, files, *_ = socket.recv_fds(client, 1 << 20, 3)
    command = os.fork()
    if command == 0:
        for mine, theirs in enumerate(files):
            os.dup2(theirs, mine)
        _run(*json.loads(order))
    client.send(str(os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])).encode())
    os._exit(0)


def _run(folder: str, variables: dict[str, str], arguments: list[str]) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv[:] = arguments
    sys.path[:0] = variables["PYTHONPATH"].split(os.pathsep)
    for packages in Path(variables["VIRTUAL_ENV"]).glob("lib/*/site-packages"):
        site.addsitedir(str(packages))
    sys.exit(import_module("kframework.cli").main())


if __name__ == "__main__":
    del sys.path[0]  # the folder of this file
    _serve(socket.socket(fileno=int(sys.argv[1])))
