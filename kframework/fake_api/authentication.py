"""Who asks: bearer tokens, and the names under which administrators may act, as kube-apiserver reads them.

Nobody is known by a certificate here.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from kframework.client.users import ADMIN, ANONYMOUS, AUTHENTICATED, User
from kframework.errors import ClusterError, ConfigError
from kframework.fake_api.service_account_tokens import AUDIENCE, ServiceAccountTokens

_BEARER = "bearer "


class Headers(Protocol):
    """The headers of a request, whose names are not case-sensitive."""

    def get(self, name: str, default: str) -> str:
        """Return the first value of a header."""
        ...

    def getall(self, name: str, default: Sequence[str]) -> Sequence[str]:
        """Return all values of a header."""
        ...


class Authenticator:
    """Knows users by their tokens; who brings none is anonymous.

    With None in the place of `tokens` nobody has to log in: who brings no token of a service account is an
    administrator.
    """

    def __init__(self, accounts: ServiceAccountTokens, tokens: Mapping[str, User] | None = None) -> None:
        self._accounts = accounts
        self._tokens = tokens

    def user(self, headers: Headers) -> User:
        """Return who sends a request with these headers; ClusterError 401 for a token that nobody has."""
        token = _token(headers)
        found = self.find(token) if token else None
        if found is not None:
            return found
        if self._tokens is None:
            return ADMIN
        if token:
            raise ClusterError("Unauthorized", status=401, reason="Unauthorized")
        return ANONYMOUS

    def find(self, token: str, audience: str = AUDIENCE) -> User | None:
        """Return whose token it is; None if nobody has it, or it is not for this audience."""
        found = (self._tokens or {}).get(token) if audience == AUDIENCE else None
        if found is None:
            return self._accounts.user(token, audience)
        return found._replace(groups=tuple(dict.fromkeys((*found.groups, AUTHENTICATED))))


def impersonated(headers: Headers) -> User | None:
    """Return as whom a request is to be answered (`kubectl --as`), None for its sender."""
    name = headers.get("impersonate-user", "")
    if not name:
        return None
    groups = headers.getall("impersonate-group", ())
    return User(name, (*groups, AUTHENTICATED), headers.get("impersonate-uid", ""))


def _token(headers: Headers) -> str:
    said = headers.get("authorization", "")
    return said[len(_BEARER) :].strip() if said.lower().startswith(_BEARER) else ""


def read_tokens(file: Path) -> dict[str, User]:
    """Read a token file of kube-apiserver, `token,user,uid,"group1,group2"` in a line; ConfigError for another."""
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            return dict(_users(csv.reader(lines), file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(f"cannot be read as tokens: {why}", file=str(file)) from error


def _users(rows: Iterable[list[str]], file: Path) -> Iterator[tuple[str, User]]:
    for line, row in enumerate(rows, start=1):
        if not row:
            continue
        token, name, uid, groups = [*(each.strip() for each in row), "", "", "", ""][:4]
        if not token or not name or len(row) < 3:
            why = 'a line says token, user name, uid and, if any, "group1,group2"'
            raise ConfigError(why, file=str(file), line=line)
        yield token, User(name, tuple(each.strip() for each in groups.split(",") if each.strip()), uid)
