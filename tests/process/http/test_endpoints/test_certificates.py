"""A certificate is read again when its files have changed, and a broken one takes nothing away."""

from __future__ import annotations

import asyncio
import logging
import shutil
import subprocess
from pathlib import Path

import pytest

from kframework.clock import run_virtual
from kframework.errors import ConfigError
from kframework.process.http.endpoints import RELOAD_INTERVAL, Certificate

pytestmark = pytest.mark.tool("openssl")


def issue(folder: Path, name: str) -> None:
    """Make a key and a certificate for it."""
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", folder / f"{name}.pem", "-out", folder / f"{name}.crt", "-subj", f"/CN={name}"),
        ],
        check=True,
        capture_output=True,
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    issue(folder, "old")
    issue(folder, "new")
    return folder


@pytest.fixture
def used(made: Path, tmp_path: Path) -> Path:
    put(made, "old", tmp_path)
    return tmp_path


def put(made: Path, name: str, used: Path) -> None:
    for end in ("crt", "pem"):
        shutil.copy(made / f"{name}.{end}", used / f"tls.{end}")


def certificate(used: Path) -> Certificate:
    return Certificate(str(used / "tls.crt"), str(used / "tls.pem"))


def test_same_files_are_not_read_in_again(used: Path) -> None:
    shown = certificate(used)
    before = shown.context
    shown.renew()
    assert shown.context is before


def test_new_files_are_shown(made: Path, used: Path, caplog: pytest.LogCaptureFixture) -> None:
    shown = certificate(used)
    before = shown.context
    put(made, "new", used)
    with caplog.at_level(logging.INFO):
        shown.renew()
    assert shown.context is not before
    assert caplog.messages == [f"reloaded the certificate {used}/tls.crt"]


@pytest.mark.parametrize("broken", ["half", "empty", "gone"])
def test_broken_files_take_nothing_away(broken: str, made: Path, used: Path, caplog: pytest.LogCaptureFixture) -> None:
    shown = certificate(used)
    before = shown.context
    if broken == "half":
        shutil.copy(made / "new.crt", used / "tls.crt")  # whose key is still to come
    elif broken == "empty":
        (used / "tls.pem").write_text("")
    else:
        (used / "tls.crt").unlink()
    for _ in range(3):
        shown.renew()
    assert shown.context is before
    (line,) = caplog.messages
    assert line.startswith(f"cannot use the certificate {used}/tls.crt with the key {used}/tls.pem: ")
    assert line.endswith("; keeping the previous certificate")
    put(made, "new", used)
    shown.renew()
    assert shown.context is not before


def test_files_are_looked_at_once_a_minute(made: Path, used: Path) -> None:
    shown = certificate(used)
    before = shown.context

    async def main() -> None:
        keeping = asyncio.create_task(shown.reload_periodically())
        put(made, "new", used)
        await asyncio.sleep(RELOAD_INTERVAL - 1)
        assert shown.context is before
        await asyncio.sleep(2)
        assert shown.context is not before
        keeping.cancel()

    run_virtual(main)


def test_both_files_are_needed() -> None:
    with pytest.raises(ConfigError, match="TLS needs both --tls-cert-file and --tls-private-key-file"):
        Certificate("a", "")
