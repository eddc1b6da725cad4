"""Questions to a running scheduler, over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kframework.errors import ExplainError, InputError, format_os_error

if TYPE_CHECKING:
    from ssl import SSLContext
    from urllib.error import HTTPError

#: The default address of `kframework run`.
DEFAULT_SCHEDULER = "http://127.0.0.1:10259"

#: The timeout of requests to a scheduler, in seconds.
_REQUEST_TIMEOUT = 30.0

CertificateAuthority = Annotated[
    str | None, typer.Option(metavar="FILE", help="Certificate of the CA that issued the scheduler's certificate.")
]


def ask_scheduler(url: str, certificate_authority: str | None, path: str, body: bytes | None = None) -> bytes:
    """Return the answer of a scheduler to a path, which a body is posted to; ExplainError in the scheduler's words."""
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    if not url.startswith(("http://", "https://")):
        example = f"must begin with http:// or https://, like {DEFAULT_SCHEDULER}"
        raise typer.BadParameter(example, param_hint="'--scheduler'")
    tls = _tls_context(certificate_authority)
    headers = {} if body is None else {"Content-Type": "application/json"}
    try:
        request = Request(url.rstrip("/") + path, data=body, headers=headers)
        with urlopen(request, timeout=_REQUEST_TIMEOUT, context=tls) as response:
            answer: bytes = response.read()
    except HTTPError as error:
        raise ExplainError(_error_message(url, path, error)) from error
    except (URLError, TimeoutError, ValueError) as error:
        reason = getattr(error, "reason", error)
        reason = format_os_error(reason) if isinstance(reason, Exception) else reason
        remedy = "name the right one with --scheduler URL, or cluster files with -f"
        raise ExplainError(f"no scheduler answers at {url}: {reason}; {remedy}") from error
    return answer


def _tls_context(certificate_authority: str | None) -> SSLContext:
    import ssl

    try:
        return ssl.create_default_context(cafile=certificate_authority)
    except ssl.SSLError as error:
        raise InputError("contains no PEM certificate", file=certificate_authority) from error
    except OSError as error:
        raise InputError(str(error.strerror), file=certificate_authority) from error


def _error_message(url: str, path: str, error: HTTPError) -> str:
    """Return why a scheduler does not answer, in its own words if possible."""
    import msgspec

    try:
        return msgspec.json.decode(error.read(), type=dict[str, str])["error"]
    except (msgspec.DecodeError, KeyError):
        return f"{url} does not serve {path.partition('?')[0]}: {error.code} {error.reason}"
