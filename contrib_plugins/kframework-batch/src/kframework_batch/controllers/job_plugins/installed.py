"""The plugins that there are for Jobs, by the names that `spec.plugins` has for them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from kframework_batch.controllers.job_plugins.env import Env
from kframework_batch.controllers.job_plugins.job_plugin import JobPlugin
from kframework_batch.controllers.job_plugins.ssh import Ssh
from kframework_batch.controllers.job_plugins.svc import Svc
from kframework_batch.objects import Job

#: Plugins of Volcano for frameworks of machine learning: what they set up is passed over here.
OF_VOLCANO = frozenset({"hcclrank", "mpi", "pytorch", "ray", "tensorflow"})
#: Those that there are.
INSTALLED = ("env", "ssh", "svc")


def plugins_of(job: Job, chance: Random) -> dict[str, JobPlugin]:
    """Make the plugins of a job, by name."""
    made: dict[str, JobPlugin] = {}
    for name, texts in job.spec.plugins.items():
        match name:
            case "env":
                made[name] = Env()
            case "svc":
                made[name] = Svc(Svc.arguments(texts))
            case "ssh":
                made[name] = Ssh(Ssh.arguments(texts), chance)
    return made


def problems_of(job: Job) -> Iterator[str]:
    """Say which arguments are passed over, without their values, and which plugins."""
    for name, texts in job.spec.plugins.items():
        if name in OF_VOLCANO:
            yield f"spec.plugins: plugin {name}"
        elif name in ("svc", "ssh"):
            arguments = Svc.arguments(texts) if name == "svc" else Ssh.arguments(texts)
            yield from (f"spec.plugins: {problem}; it" for problem in arguments.problems)
