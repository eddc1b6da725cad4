"""Kubernetes' library of URLs, parsed as in Go's `net/url`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote, unquote, unquote_plus

from kframework.cel.errors import CelError
from kframework.cel.functions import can_parse, function, method
from kframework.cel.values import Opaque

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
_WRONG_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_USER = re.compile(r"[A-Za-z0-9._:~!$&'()*+,;=%@-]*", re.ASCII)
_HOST = re.compile(r"(?:[^\x00-\x7f]|[A-Za-z0-9._~!$&'()*+,;=:\[\]<>\"-]|%25|%[89A-Fa-f][0-9A-Fa-f])*")
_PORT = re.compile(r"(?::[0-9]*)?", re.ASCII)
_ESCAPED_PATH = re.compile(r"[A-Za-z0-9_.~!$&'()*+,;=:@\[\]/%-]*", re.ASCII)
_UNESCAPED = "/$&+,:;=@"


@dataclass(frozen=True, slots=True)
class Url(Opaque):
    """A parsed URL."""

    scheme: str
    opaque: str
    user: str
    host: str
    path: str
    query: str
    fragment: str
    type_name = "kubernetes.URL"

    @property
    def port(self) -> str:
        return self.host.rpartition(":")[2] if _ends_in_port(self.host) else ""

    @property
    def hostname(self) -> str:
        """The host without port and brackets."""
        name = self.host.rpartition(":")[0] if _ends_in_port(self.host) else self.host
        return name[1:-1] if name.startswith("[") and name.endswith("]") else name


def parse_url(text: str) -> Url:
    """Parse an absolute URL or an absolute path; raises CelError."""
    _parse_parts(text, "")
    rest, _, fragment = text.partition("#")
    return _parse_parts(rest, fragment)


def _parse_parts(text: str, fragment: str) -> Url:
    if not text or _CONTROL.search(text) or text.startswith(":"):
        raise _url_error(text)
    scheme_match = _SCHEME.match(text)
    scheme = scheme_match[1].lower() if scheme_match is not None else ""
    rest, _, query = text[scheme_match.end() if scheme_match is not None else 0 :].partition("?")
    if not rest.startswith("/"):
        if not scheme:
            raise _url_error(text)
        return Url(scheme, rest, "", "", "", query, fragment)
    authority = ""
    if scheme and rest.startswith("//"):
        authority, slash, rest = rest[2:].partition("/")
        rest = slash + rest
    user, _, host = authority.rpartition("@")
    if _WRONG_ESCAPE.search(rest + user + host) or not _USER.fullmatch(user) or not _is_host(host):
        raise _url_error(text)
    return Url(scheme, "", user, unquote(host), rest, query, fragment)


def _is_host(host: str) -> bool:
    if host.startswith("["):
        inside, bracket, port = host.rpartition("]")
        return bool(bracket) and _HOST.fullmatch(inside) is not None and _PORT.fullmatch(port) is not None
    port = host[host.rfind(":") :] if ":" in host else ""
    return _PORT.fullmatch(port) is not None and _HOST.fullmatch(host) is not None


def _ends_in_port(host: str) -> bool:
    return ":" in host and host.rfind(":") > host.rfind("]") and _PORT.fullmatch(host[host.rfind(":") :]) is not None


def _url_error(text: str) -> CelError:
    return CelError(f'URL parse error during conversion from string: parse "{text}": invalid URI for request')


#: Whether a text is an absolute URL or an absolute path.
is_url: Callable[..., bool] = can_parse(lambda text: _parse_parts(text, ""))


def _escaped_path(url: Url) -> str:
    return url.path if _ESCAPED_PATH.fullmatch(url.path) else quote(unquote(url.path), safe=_UNESCAPED)


def _query(url: Url) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for pair in url.query.split("&"):
        if pair and ";" not in pair and not _WRONG_ESCAPE.search(pair):
            key, _, value = pair.partition("=")
            values.setdefault(unquote_plus(key), []).append(unquote_plus(value))
    return values


_URL = "kubernetes.URL"

OVERLOADS = [
    *function("url", f"string -> {_URL}", apply=parse_url),
    *function("isURL", "string -> bool", apply=is_url),
    *method("getScheme", f"{_URL} -> string", apply=lambda url: url.scheme),
    *method("getHost", f"{_URL} -> string", apply=lambda url: url.host),
    *method("getHostname", f"{_URL} -> string", apply=lambda url: url.hostname),
    *method("getPort", f"{_URL} -> string", apply=lambda url: url.port),
    *method("getEscapedPath", f"{_URL} -> string", apply=_escaped_path),
    *method("getQuery", f"{_URL} -> map(string, list(string))", apply=_query),
]
