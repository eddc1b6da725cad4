"""A quota service to try the plugin with: `python -m quota.service team-a=4000 team-b=2000`, on port 8100."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

__all__ = ["QuotaService"]


class QuotaService(ThreadingHTTPServer):
    """Grants claims until a namespace's milli-CPU are spent; a namespace without a quota gets nothing."""

    def __init__(self, limits: dict[str, int], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Request)
        self.limits = limits
        self.claims: dict[str, dict[str, int]] = {namespace: {} for namespace in limits}
        self.lock = Lock()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"

    def free(self, namespace: str) -> int:
        """Return what is left."""
        return self.limits.get(namespace, 0) - sum(self.claims.get(namespace, {}).values())

    def claim(self, namespace: str, uid: str, cpu: int) -> str:
        """Grant a claim; return why not, "" if it is granted."""
        with self.lock:
            if uid not in self.claims.get(namespace, {}) and cpu > self.free(namespace):
                return (
                    f"{cpu}m of cpu are requested, {self.free(namespace)}m of {self.limits.get(namespace, 0)}m are free"
                )
            self.claims[namespace][uid] = cpu
            return ""


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: QuotaService

    def do_GET(self) -> None:
        self._answer(200, json.dumps({namespace: self.server.free(namespace) for namespace in self.server.limits}))

    def do_PUT(self) -> None:
        _, _, namespace, uid = self.path.split("/")
        claim = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        problem = self.server.claim(namespace, uid, claim["cpu"])
        self._answer(409 if problem else 200, problem)

    def do_DELETE(self) -> None:
        _, _, namespace, uid = self.path.split("/")
        self.server.claims.get(namespace, {}).pop(uid, None)
        self._answer(200, "")

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    pairs = (text.partition("=") for text in sys.argv[1:])
    QuotaService({namespace: int(cpu) for namespace, _, cpu in pairs}, 8100).serve_forever()
