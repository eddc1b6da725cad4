"""As much of Prometheus as the plugin asks: `python -m measured_load.server a=0.95 b=0.2`, on port 9090."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["LoadServer"]


class LoadServer(ThreadingHTTPServer):
    """Answers every query with the same samples, or with the status `error_status` if that is set."""

    def __init__(self, load: dict[str, float], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Request)
        self.load = load
        self.error_status = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"

    def samples(self) -> list[dict[str, object]]:
        """Return them as a vector of Prometheus."""
        return [{"metric": {"node": node}, "value": [0, str(share)]} for node, share in self.load.items()]


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: LoadServer

    def do_GET(self) -> None:
        vector = {"resultType": "vector", "result": self.server.samples()}
        text = json.dumps({"status": "success", "data": vector})
        self.send_response(self.server.error_status or 200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    pairs = (text.partition("=") for text in sys.argv[1:])
    LoadServer({node: float(share) for node, _, share in pairs}, 9090).serve_forever()
