"""The plugin `ssh`: the pods of a job log in at each other without a password.

The keys are Ed25519, where Volcano makes RSA keys: those can be drawn from a generator with a seed.
"""

from __future__ import annotations

from base64 import b64encode
from pathlib import PurePosixPath
from random import Random

from kframework.objects import ApiObject
from kframework_batch.belongings import ConfigMap, Secret
from kframework_batch.controllers.job_plugins.ed25519 import KeyPair, key_pair
from kframework_batch.controllers.job_plugins.job_plugin import Arguments, hosts, in_all_containers, named
from kframework_batch.objects import Job, TaskSpec
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


class Ssh:
    """Makes a Secret with a pair of keys and the configuration of ssh; `chance` is what keys are drawn from."""

    def __init__(self, arguments: Arguments, chance: Random) -> None:
        self._path = arguments.text(_PATH)
        self._private, self._public = arguments.text(_PRIVATE), arguments.text(_PUBLIC)
        port = arguments.number(_PORT)
        self._port = port if 0 < port < 65536 else _DEFAULT_PORT
        self._chance = chance

    @staticmethod
    def arguments(texts: tuple[str, ...]) -> Arguments:
        """Read its arguments."""
        return Arguments("ssh", texts, {_PATH: _ROOTS, _PRIVATE: "", _PUBLIC: "", _PORT: _DEFAULT_PORT})

    def belongings(self, job: Job) -> list[ApiObject]:
        """Make the Secret; its keys are new ones unless the arguments have some."""
        keys = KeyPair(self._private, self._public) if self._private else key_pair(self._chance)
        texts = (keys.private, keys.public, keys.public, _configuration(job, self._port))
        data = {name: b64encode(text.encode()).decode() for name, text in zip(_FILES, texts, strict=True)}
        return [Secret(metadata=named(job, _secret(job)), data=data, type="Opaque")]

    def changing(self, job: Job) -> list[ConfigMap]:
        """Make nothing: what a pod has mounted of a Secret file by file does not follow it."""
        return []

    def names(self, job: Job) -> list[tuple[type[ApiObject], str]]:
        """Name the Secret."""
        return [(Secret, _secret(job))]

    def applied(self, spec: TemplatePodSpec, job: Job, task: TaskSpec, index: int) -> TemplatePodSpec:
        """Return the spec with the files of the Secret mounted in each container."""
        secret = _secret(job)
        source = SecretSource(
            secret_name=secret,
            items=tuple(KeyToPath(key=name, path=f"{_RELATIVE}/{name}") for name in _FILES),
            default_mode=_FOR_ROOT if self._path == _ROOTS else _FOR_ALL,
        )
        mount = VolumeMount(name=secret, mount_path=self._path, sub_path=_RELATIVE)
        return in_all_containers(spec, (), [mount], [TemplateVolume(name=secret, secret=source)])


def _configuration(job: Job, port: int) -> str:
    lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
    for task in job.spec.tasks:
        for host, subdomain in hosts(job, task):
            lines += [f"Host {host}", f"  HostName {host}.{subdomain}", f"  Port {port}"]
    return "".join(f"{line}\n" for line in lines)


def _secret(job: Job) -> str:
    return f"{job.metadata.name}-ssh"
