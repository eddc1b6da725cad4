"""Keys for ssh: the public one follows from the private one as in RFC 8032, and OpenSSH reads both."""

from __future__ import annotations

import subprocess
from pathlib import Path
from random import Random

import pytest
from kframework_batch.controllers.job_plugins.ed25519 import key_pair, public_key


@pytest.mark.parametrize(
    ("seed", "public"),
    [
        (
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        ),
        (
            "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        ),
        (
            "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
            "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        ),
    ],
)
def test_public_keys_are_those_of_the_standard(seed: str, public: str) -> None:
    assert public_key(bytes.fromhex(seed)).hex() == public


def test_another_draw_is_another_pair() -> None:
    chance = Random(0)
    assert key_pair(chance) != key_pair(chance)
    assert key_pair(Random(0)) == key_pair(Random(0))


@pytest.mark.tool("ssh-keygen")
@pytest.mark.parametrize("seed", range(3))
def test_openssh_reads_them(seed: int, tmp_path: Path) -> None:
    keys = key_pair(Random(seed))
    file = tmp_path / "id"
    file.write_text(keys.private)
    file.chmod(0o600)
    done = subprocess.run(["ssh-keygen", "-y", "-f", str(file)], capture_output=True, text=True, check=True)
    assert done.stdout.split()[:2] == keys.public.split()
