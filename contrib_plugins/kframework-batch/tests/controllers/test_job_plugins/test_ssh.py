"""The pods of a job log in at each other."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from random import Random

import msgspec
import pytest
from kframework_batch.controllers.job_admission import find_problems
from kframework_batch.controllers.job_plugins.ssh import Ssh, draw_key_pair
from kframework_batch.objects import Job, JobSpec, Secret, TaskSpec
from kframework_batch.pod_templates import TemplateContainer, TemplatePodSpec

from kframework.objects import ObjectMeta

SPEC = TemplatePodSpec(containers=(TemplateContainer(name="c"),))
TASKS = (TaskSpec(name="a", replicas=1), TaskSpec(name="b", replicas=2))
JOB = Job(metadata=ObjectMeta(name="j", namespace="ns", uid="u"), spec=JobSpec(tasks=TASKS))


def ssh(*arguments: str, seed: int = 1) -> Ssh:
    return Ssh(Ssh.arguments(arguments), Random(seed))


def plain(subject: object) -> object:
    return msgspec.json.decode(msgspec.json.encode(subject))


def texts(plugin: Ssh) -> dict[str, str]:
    (secret,) = plugin.objects(JOB)
    assert isinstance(secret, Secret)
    assert (secret.metadata.name, secret.type) == ("j-ssh", "Opaque")
    assert plugin.object_names(JOB) == [(Secret, "j-ssh")] and plugin.updated_objects(JOB) == []
    return {name: b64decode(text).decode() for name, text in secret.data.items()}


def test_secret_has_keys_and_ssh_configuration() -> None:
    found = texts(ssh())
    assert list(found) == ["id_rsa", "id_rsa.pub", "authorized_keys", "config"]
    assert found["id_rsa.pub"] == found["authorized_keys"]
    assert found["config"].splitlines() == [
        *("StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"),
        *("Host j-a-0", "  HostName j-a-0.j", "  Port 22"),
        *("Host j-b-0", "  HostName j-b-0.j", "  Port 22"),
        *("Host j-b-1", "  HostName j-b-1.j", "  Port 22"),
    ]


def test_keys_come_from_the_given_generator() -> None:
    assert texts(ssh()) == texts(ssh())
    assert texts(ssh())["id_rsa"] == draw_key_pair(Random(1)).private != texts(ssh(seed=2))["id_rsa"]


def test_seeded_key_pair_is_stable() -> None:
    chance = Random(0)
    keys = draw_key_pair(chance)
    assert hashlib.sha256("".join(keys).encode()).hexdigest()[:16] == "225b7529ca0709ae"
    assert draw_key_pair(chance) != keys


@pytest.mark.tool("ssh-keygen")
@pytest.mark.parametrize("seed", range(3))
def test_openssh_accepts_the_keys(seed: int, tmp_path: Path) -> None:
    keys = draw_key_pair(Random(seed))
    file = tmp_path / "id"
    file.write_text(keys.private)
    file.chmod(0o600)
    done = subprocess.run(["ssh-keygen", "-y", "-f", str(file)], capture_output=True, text=True, check=True)
    assert done.stdout.split()[:2] == keys.public.split()


def test_job_is_rejected_when_keys_cannot_be_generated(monkeypatch: pytest.MonkeyPatch) -> None:
    job = msgspec.structs.replace(JOB, spec=JobSpec(tasks=TASKS, min_available=1, plugins={"ssh": ()}))
    assert "cryptography" not in find_problems(job)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert "job plugin ssh takes the package cryptography: pip install 'kframework-batch[ssh]'" in find_problems(job)
    assert Ssh.missing_package(("--ssh-private-key=mine",)) == ""


def test_given_keys_are_used() -> None:
    found = texts(ssh("--ssh-private-key=mine", "--ssh-public-key=yours"))
    assert (found["id_rsa"], found["id_rsa.pub"], found["authorized_keys"]) == ("mine", "yours", "yours")


@pytest.mark.parametrize(("port", "expected"), [("2222", 2222), ("0", 22), ("65536", 22), ("x", 22)])
def test_given_port_is_used(port: str, expected: int) -> None:
    assert f"  Port {expected}\n" in texts(ssh(f"--ssh-port={port}"))["config"]


@pytest.mark.parametrize(
    ("arguments", "path", "mode"),
    [((), "/".join(("", "root", ".ssh")), 0o600), (("--ssh-key-file-path=/keys/.ssh",), "/keys/.ssh", 0o644)],
)
def test_key_files_are_mounted(arguments: tuple[str, ...], path: str, mode: int) -> None:
    spec = ssh(*arguments).add_to_pod(SPEC, JOB, TASKS[0], 0)
    files = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
    items = [{"key": name, "path": f".ssh/{name}"} for name in files]
    assert plain(spec.volumes) == [
        {"name": "j-ssh", "secret": {"secretName": "j-ssh", "items": items, "defaultMode": mode}}
    ]
    mounts = plain(spec.containers[0].volume_mounts)
    assert mounts == [{"name": "j-ssh", "mountPath": path, "subPath": ".ssh"}]


def test_keys_are_not_logged() -> None:
    (secret,) = ssh("--ssh-private-key=hunter2", "--ssh-prot=hunter2").objects(JOB)
    assert repr(secret) == "<Secret ns/j-ssh>"
    assert Ssh.arguments(("--ssh-prot=hunter2",)).problems == ["plugin ssh has no argument ssh-prot"]
