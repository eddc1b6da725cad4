"""The fake API server where kubectl finds it: served over HTTP, with a kubeconfig that leads there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import msgspec
import yaml

from kframework.apiserver.server import ApiServer
from kframework.errors import ConfigError

#: What cluster and context are called in the kubeconfigs written here.
NAME = "kframework-fake-api"

#: Addresses that mean every interface, and one at which this machine reaches itself.
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class Publication(msgspec.Struct, frozen=True, kw_only=True):
    """Where to serve, 0 being any free port, and the kubeconfig to write: None for one that goes with the server."""

    bind_address: str = "127.0.0.1"
    port: int = 0
    kubeconfig: str | None = None


@asynccontextmanager
async def published(server: ApiServer, publication: Publication) -> AsyncIterator[Path]:
    """Serve meanwhile and yield the kubeconfig; ConfigError if either cannot be."""
    from kframework.apiserver.web import serve

    async with AsyncExitStack() as stack:
        host = publication.bind_address
        try:
            port = await stack.enter_async_context(serve(server, host, publication.port))
        except OSError as error:
            why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            remedy = "choose another --bind-address or --port, or no --port for any free one"
            raise ConfigError(f"cannot listen on {host}:{publication.port}: {why}; {remedy}") from error
        reachable = _EVERYWHERE.get(host, host)
        url = f"http://{f'[{reachable}]' if ':' in reachable else reachable}:{port}"
        if publication.kubeconfig is None:
            yield stack.enter_context(_passing(url))
        else:
            yield _lasting(Path(publication.kubeconfig), url)


@contextmanager
def _passing(url: str) -> Iterator[Path]:
    """Write a kubeconfig that is removed at the end."""
    handle, name = tempfile.mkstemp(prefix="kframework-", suffix=".yaml")
    with open(handle, "w", encoding="utf-8") as file:
        file.write(_kubeconfig(url))
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _lasting(file: Path, url: str) -> Path:
    """Write a kubeconfig to a file which may be there only if it was written here too."""
    if file.exists() and not _is_ours(file):
        raise ConfigError("exists, and is not the kubeconfig of a fake API; name another file to write", file=str(file))
    try:
        file.write_text(_kubeconfig(url), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=str(file)) from error
    return file.absolute()


def _is_ours(file: Path) -> bool:
    try:
        known = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return False
    contexts = known.get("contexts") if isinstance(known, dict) else None
    return isinstance(contexts, list) and [each.get("name") for each in contexts if isinstance(each, dict)] == [NAME]


def _kubeconfig(url: str) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": {"server": url}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
        "users": [{"name": NAME, "user": {}}],
        "current-context": NAME,
    }
    return yaml.safe_dump(document, sort_keys=False)
