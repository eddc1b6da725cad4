"""Extenders for tests: answered in process by functions, or served over HTTP beside the test."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from kframework.config.models import ExtenderSettings
from kframework.core.cycle.suspendable import ExtenderError
from kframework.scheduler.extender import Extender
from kframework.scheduler.extender_http import HttpExtenderTransport

__all__ = [
    "GPU",
    "NO_ANSWER",
    "Answer",
    "ExtenderServer",
    "Reply",
    "ScriptedExtender",
    "accept_except",
    "configuration",
    "extender",
    "node_names_in",
    "settings",
    "verbs",
]

GPU = "example.com/gpu"

#: What an extender of a test answers to a question, both as plain data; or what it raises.
Answer = Callable[[Any], object]


def settings(**fields: object) -> ExtenderSettings:
    """Make the settings of an extender, fields spelled as in YAML."""
    return ExtenderSettings.model_validate({"urlPrefix": "http://extender"} | fields)


class ScriptedExtender(HttpExtenderTransport):
    """A line that ends in a test: what is asked is noted, and answered by verb."""

    def __init__(self, answers: Mapping[str, object], journal: list[tuple[str, Any]] | None = None) -> None:
        self.answers = answers
        self.journal = journal if journal is not None else []
        self.open = 0

    async def start(self) -> None:
        self.open += 1

    async def close(self) -> None:
        self.open -= 1

    async def send(self, verb: str, request: bytes) -> bytes:
        asked = json.loads(request)
        self.journal.append((verb, asked))
        answer = self.answers[verb]
        if callable(answer):
            answer = answer(asked)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, bytes) else json.dumps(answer).encode()


def extender(answers: Mapping[str, object], journal: list[tuple[str, Any]] | None = None, **fields: object) -> Extender:
    """Make an extender that answers in process; its verbs are those that it has an answer to.

    An answer is data, bytes, an exception, or a function of the question that returns one of these.
    """
    verbs = {f"{verb}Verb": verb for verb in answers}
    weight = {"weight": 1} if "prioritize" in answers else {}
    return Extender(settings(**verbs, **weight | fields), ScriptedExtender(answers, journal))


def node_names_in(question: Any) -> list[str]:
    """Return the names of the nodes that a question is about, however it says so."""
    if question["NodeNames"] is not None:
        return list(question["NodeNames"])
    return [item["metadata"]["name"] for item in question["Nodes"]["items"]]


def accept_except(
    *names: str, failed: Mapping[str, str] | None = None, unresolvable: Mapping[str, str] | None = None
) -> Answer:
    """Answer that of the nodes asked about these pass; without names all but the failed ones."""

    def answer(question: Any) -> object:
        against = {**(failed or {}), **(unresolvable or {})}
        passing = [name for name in node_names_in(question) if (name in names if names else name not in against)]
        return {
            "Nodes": {"items": [{"metadata": {"name": name}} for name in passing]},
            "NodeNames": passing,
            "FailedNodes": dict(failed or {}),
            "FailedAndUnresolvableNodes": dict(unresolvable or {}),
        }

    return answer


NO_ANSWER = ExtenderError("no answer")


class Reply(msgspec.Struct):
    """An answer that is not just JSON with status 200; when it promises more than it holds, the rest never comes."""

    status: int = 200
    body: bytes = b"{}"
    length: int | None = None
    location: str = ""


class ExtenderServer(ThreadingHTTPServer):
    """An extender behind HTTP on this machine, in threads of its own, as the loop of a test may have no real time."""

    daemon_threads = False  # so that every connection is closed when the server is

    def __init__(self, answers: Mapping[str, object], *, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.server_port}/extend"
        self.answers = answers
        self.asked: list[tuple[str, Any]] = []
        self.requests: list[BaseHTTPRequestHandler] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))

    def __enter__(self) -> ExtenderServer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self.shutdown()
        self._thread.join()
        self.server_close()

    def settings(self, *verbs: str, **fields: object) -> Mapping[str, object]:
        """Return the settings with which a scheduler asks this extender for these verbs."""
        return {"urlPrefix": self.url, **{f"{verb}Verb": verb for verb in verbs}, **fields}

    def hang(self, question: object = None) -> object:
        """Answer nothing before the test is over."""
        self._over.wait()
        return {}


class _Handler(BaseHTTPRequestHandler):
    server: ExtenderServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        verb = self.path.removeprefix("/extend/")
        self.server.asked.append((verb, question))
        self.server.requests.append(self)
        answer = self.server.answers[verb]
        if callable(answer):
            answer = answer(question)
        reply = answer if isinstance(answer, Reply) else Reply(body=json.dumps(answer).encode())
        length = len(reply.body) if reply.length is None else reply.length
        with contextlib.suppress(ConnectionError):  # who asked may have had enough
            self.send_response(reply.status)
            self.send_header("Content-Length", str(length))
            if reply.location:
                self.send_header("Location", reply.location)
            self.end_headers()
            self.wfile.write(reply.body)
            if length > len(reply.body):
                self.server.hang()

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""


def configuration(*each: Mapping[str, object]) -> str:
    """Write a configuration of the default profile with these extenders."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": list(each),
    }
    return json.dumps(document)


def verbs(asked: Iterable[tuple[str, Any]]) -> list[str]:
    return [verb for verb, _ in asked]
