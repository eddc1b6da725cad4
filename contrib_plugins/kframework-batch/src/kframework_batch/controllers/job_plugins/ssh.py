"""The plugin `ssh`: the pods of a job log in at each other without a password.

The keys are Ed25519, where Volcano makes RSA keys: those can be drawn from a generator with a seed. `cryptography`
makes the public key. The file of the private one is written here, since that package draws four bytes of it by itself.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from importlib.util import find_spec
from pathlib import PurePosixPath
from random import Random
from textwrap import wrap
from typing import NamedTuple

from kframework.objects import ApiObject
from kframework_batch.controllers.job_plugins.job_plugin import (
    Arguments,
    JobPlugin,
    add_to_containers,
    hosts,
    object_metadata,
)
from kframework_batch.objects import Job, Secret, TaskSpec
from kframework_batch.pod_templates import KeyToPath, SecretSource, TemplatePodSpec, TemplateVolume, VolumeMount

_PATH = "ssh-key-file-path"
_PRIVATE = "ssh-private-key"
_PUBLIC = "ssh-public-key"
_PORT = "ssh-port"

_RELATIVE = ".ssh"
_ROOTS = str(PurePosixPath("/", "root", _RELATIVE))
_DEFAULT_PORT = 22
_FILES = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
#: What others than root can read, they have to.
_FOR_ROOT, _FOR_ALL = 0o600, 0o644


class KeyPair(NamedTuple):
    """The texts of a private and a public key."""

    private: str
    public: str


class Ssh(JobPlugin):
    """Makes a Secret with a pair of keys and the configuration of ssh; `chance` is what keys are drawn from.

    The Secret does not follow the job when it grows: what a pod has mounted of one file by file does not change.
    """

    def __init__(self, arguments: Arguments, chance: Random) -> None:
        self._path = arguments.text(_PATH)
        self._private, self._public = arguments.text(_PRIVATE), arguments.text(_PUBLIC)
        port = arguments.number(_PORT)
        self._port = port if 0 < port < 65536 else _DEFAULT_PORT
        self._random = chance

    @staticmethod
    def arguments(texts: tuple[str, ...]) -> Arguments:
        return Arguments("ssh", texts, {_PATH: _ROOTS, _PRIVATE: "", _PUBLIC: "", _PORT: _DEFAULT_PORT})

    @staticmethod
    def missing_package(texts: tuple[str, ...]) -> str:
        """Return what to install before a job with these arguments can have its keys made; "" if nothing."""
        if Ssh.arguments(texts).text(_PRIVATE) or find_spec("cryptography") is not None:
            return ""
        return "job plugin ssh takes the package cryptography: pip install 'kframework-batch[ssh]'"

    def objects(self, job: Job) -> list[ApiObject]:
        keys = KeyPair(self._private, self._public) if self._private else draw_key_pair(self._random)
        lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
        for host, subdomain in (each for task in job.spec.tasks for each in hosts(job, task)):
            lines += [f"Host {host}", f"  HostName {host}.{subdomain}", f"  Port {self._port}"]
        texts = (keys.private, keys.public, keys.public, "".join(f"{line}\n" for line in lines))
        data = {name: b64encode(text.encode()).decode() for name, text in zip(_FILES, texts, strict=True)}
        return [Secret(metadata=object_metadata(job, _secret(job)), data=data, type="Opaque")]

    def object_names(self, job: Job) -> list[tuple[type[ApiObject], str]]:
        return [(Secret, _secret(job))]

    def add_to_pod(self, spec: TemplatePodSpec, job: Job, task: TaskSpec, index: int) -> TemplatePodSpec:
        secret = _secret(job)
        source = SecretSource(
            secret_name=secret,
            items=tuple(KeyToPath(key=name, path=f"{_RELATIVE}/{name}") for name in _FILES),
            default_mode=_FOR_ROOT if self._path == _ROOTS else _FOR_ALL,
        )
        mount = VolumeMount(name=secret, mount_path=self._path, sub_path=_RELATIVE)
        return add_to_containers(spec, (), [mount], [TemplateVolume(name=secret, secret=source)])


def draw_key_pair(chance: Random) -> KeyPair:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    kind, seed, check = b"ssh-ed25519", chance.randbytes(32), chance.randbytes(4)
    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    blob = _pack(kind, public)
    secret = check + check + _pack(kind, public, seed + public, b"")
    secret += bytes(range(1, 1 + -len(secret) % 8))
    whole = b"openssh-key-v1\0" + _pack(b"none", b"none", b"") + struct.pack(">I", 1) + _pack(blob, secret)
    lines = wrap(b64encode(whole).decode(), 70)
    head, foot = (f"-----{word} OPENSSH PRIVATE KEY-----" for word in ("BEGIN", "END"))
    return KeyPair("".join(f"{line}\n" for line in (head, *lines, foot)), f"ssh-ed25519 {b64encode(blob).decode()}\n")


def _pack(*parts: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


def _secret(job: Job) -> str:
    return f"{job.metadata.name}-ssh"
