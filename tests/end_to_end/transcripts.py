"""What kubectl prints, written down command by command: files that people read and tests repeat.

A line with `$` is a command, those with `>` behind it are what it reads. Then comes what it prints, with `!` before
what goes to stderr and `?` before an exit code that is not 0. Lines with `##` are for people. What differs from run to
run (ages, addresses, uids, versions) is replaced by a word, and runs of spaces by two.

`python -m tests.end_to_end.transcripts` rewrites all of them; compare the difference with what a real API server says.
With the name of a file, and a minor of Kubernetes, it prints that one as it would be now, and this is what the tests
do: in a process of their own the server knows no kinds but those that it comes with.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from kframework.testing import fake_api
from kframework.values.feature_gates import LATEST_MINOR
from tests.end_to_end.processes import DEADLINE

FOLDER = Path(__file__).with_name("kubectl")

#: How a transcript begins in which controllers make pods.
_ACTING = "## Workloads act."
#: The controllers that have done their work before anybody can look.
_AT_ONCE = ("serviceaccount", "root-ca-certificate-publisher")

#: What differs from run to run, and what stands for it.
_VARYING = [
    (re.compile(pattern), word)
    for pattern, word in (
        (r"(?<=BEGIN CERTIFICATE-----\n)[\w+/=\n]+", "CERTIFICATE\n"),
        (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)", "TIME"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? \+0000( UTC)?", "TIME"),
        (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
        (r"[A-Z]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ \w+\.go:\d+\]", "LOGGED"),
        (r"127\.0\.0\.1:\d+", "SERVER"),
        (r"/\S*/(kubectl-edit-|LIVE-|MERGED-)[\w-]*", r"/TEMPORARY/\1"),
        (r"(?<=resourceVersion: )\"\d+\"|(?<=\"resourceVersion\": )\"\d+\"|(?<=resource-version=)\d+", "VERSION"),
        (r"(?<=Resource Version:)  \d+|(?<=\"resourceVersion\":)\"\d+\"", " VERSION"),
        (r"\b10\.(?!96\.)\d+\.\d+\.\d+", "ADDRESS"),
        (r"eyJ[\w-]+\.[\w-]+\.[\w-]+", "TOKEN"),
        (r"(?<![\w.=-])(\d+[dhm])*\d+s\b", "AGE"),
        (r"(?<=\S) {2,}", "  "),
    )
]


class Entry(NamedTuple):
    """A command with what it reads, or a remark where there is none."""

    command: str
    stdin: str = ""
    remark: str = ""


def read(text: str) -> Iterator[Entry]:
    """Read a transcript, without what the commands printed."""
    command, stdin, remark = "", "", ""
    for line in [*text.splitlines(), "$"]:
        if line.startswith("$"):
            if command:
                yield Entry(command, stdin)
            if remark:
                yield Entry("", remark=remark)
            command, stdin, remark = line[2:], "", ""
        elif line.startswith("> "):
            stdin += f"{line[2:]}\n"
        elif line.startswith("## "):
            remark += f"{line}\n"


def recorded(text: str, minor: str = LATEST_MINOR) -> str:
    """Run the commands of a transcript on a new cluster of a minor of Kubernetes, and rewrite it.

    Workloads act only where the transcript begins by saying so, and waits for them: what they have made by the time of
    the next command is not the same twice.
    """
    controllers = ("*",) if text.startswith(_ACTING) else _AT_ONCE
    with TemporaryDirectory() as home, fake_api(rbac=True, controllers=controllers, minor=minor) as api:
        environment = {"PATH": os.environ["PATH"], "HOME": home, "TMPDIR": home, "KUBECONFIG": str(api.kubeconfig)}
        return "\n".join([_run(entry, environment) for entry in read(text)])


def _run(entry: Entry, environment: dict[str, str]) -> str:
    if entry.remark:
        return entry.remark
    words = shlex.split(entry.command)
    first = next(place for place, word in enumerate(words) if "=" not in word)
    settings = dict(word.split("=", 1) for word in words[:first])
    done = subprocess.run(
        words[first:],
        input=entry.stdin,
        capture_output=True,
        text=True,
        env=environment | settings,
        timeout=DEADLINE,
        check=False,
    )
    code = f"? {done.returncode}\n" if done.returncode else ""
    return (
        f"$ {entry.command}\n{_marked('> ', entry.stdin)}{_printed('', done.stdout)}{_printed('! ', done.stderr)}{code}"
    )


def _printed(mark: str, text: str) -> str:
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return _marked(mark, text)


def _marked(mark: str, text: str) -> str:
    return "".join(f"{mark}{line}".rstrip() + "\n" for line in text.splitlines())


def _write_all() -> None:
    with ThreadPoolExecutor(2) as pool:
        files = sorted(FOLDER.glob("*.txt"))
        for file, text in zip(files, pool.map(recorded, map(Path.read_text, files)), strict=True):
            file.write_text(text)


if __name__ == "__main__":
    if sys.argv[1:]:
        file, *minor = sys.argv[1:]
        sys.stdout.write(recorded(Path(file).read_text(), *minor))
    else:
        _write_all()
