"""Tokens say who asks, and administrators may act as others."""

from __future__ import annotations

from pathlib import Path

import pytest
from multidict import CIMultiDict

from kframework.client.transport import ADMIN, ANONYMOUS, User, service_account
from kframework.clock import SystemClock
from kframework.errors import ClusterError, ConfigError
from kframework.fake_api.authentication import Authenticator, ServiceAccountTokens, impersonated_user, read_tokens
from kframework.in_memory.cluster import MemoryCluster

ANN = User("ann", ("dev",), "7")


NO_ACCOUNTS = ServiceAccountTokens(MemoryCluster(SystemClock()), SystemClock())
AUTHENTICATOR = Authenticator(NO_ACCOUNTS, {"secret": ANN})


@pytest.mark.parametrize("header", ["Bearer secret", "bearer  secret "])
def test_token_identifies_the_user(header: str) -> None:
    assert AUTHENTICATOR.authenticate(CIMultiDict(Authorization=header)) == User(
        "ann", ("dev", "system:authenticated"), "7"
    )


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer "}])
def test_request_without_a_token_is_anonymous(headers: dict[str, str]) -> None:
    assert AUTHENTICATOR.authenticate(CIMultiDict(headers)) == ANONYMOUS


def test_unknown_token_is_rejected() -> None:
    with pytest.raises(ClusterError) as refused:
        AUTHENTICATOR.authenticate(CIMultiDict(Authorization="Bearer other"))
    assert (refused.value.status, refused.value.reason, refused.value.message) == (401, "Unauthorized", "Unauthorized")


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer other"}])
def test_every_user_is_an_administrator_without_logins(headers: dict[str, str]) -> None:
    assert Authenticator(NO_ACCOUNTS).authenticate(CIMultiDict(headers)) == ADMIN


def test_impersonation_headers_name_a_user() -> None:
    headers = CIMultiDict({"Impersonate-User": "bob", "Impersonate-Uid": "9"})
    headers.extend([("Impersonate-Group", "dev"), ("Impersonate-Group", "ops")])
    assert impersonated_user(headers) == User("bob", ("dev", "ops", "system:authenticated"), "9")
    assert impersonated_user(CIMultiDict()) is None
    account = impersonated_user(CIMultiDict({"Impersonate-User": "system:serviceaccount:shop:robot"}))
    assert account == service_account("shop", "robot")


def test_token_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "tokens.csv"
    file.write_text('secret,ann,7,"dev, ops"\n\nother,bob,8\n')
    assert read_tokens(file) == {"secret": User("ann", ("dev", "ops"), "7"), "other": User("bob", (), "8")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "secret,ann,7\nsecret\n",
            r'tokens\.csv.*2.*expected a line with token, user name, uid and optionally "group1,group2"',
        ),
        (",ann,7\n", "expected a line with token"),
        ("secret,ann\n", "expected a line with token"),
        ("\udcff", "cannot read tokens"),
    ],
)
def test_invalid_token_file_is_a_config_error(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "tokens.csv"
    file.write_text(text, errors="surrogateescape")
    with pytest.raises(ConfigError, match=message):
        read_tokens(file)


def test_missing_token_file_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read tokens: No such file"):
        read_tokens(tmp_path / "nowhere.csv")
