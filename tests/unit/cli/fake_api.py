"""An API server of a few paths: what a test puts in is answered, and every request is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

Json = dict[str, Any]
GROUP = "/apis/inferencecluster.io/v1alpha1"


@dataclass
class Answer:
    """What a path answers. `chunks` are sent one by one; `cut`: the connection breaks behind them."""

    body: Any = None
    status: int = 200
    chunks: list[bytes] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False


class FakeApi:
    """Objects live in `clusters`, `pods` and `config_maps`; `answers` win over them."""

    def __init__(self) -> None:
        self.clusters: list[Json] = []
        self.pods: list[Json] = []
        self.config_maps: list[Json] = []
        #: By path, without the query.
        self.answers: dict[str, Answer] = {}
        #: (method, path, body) of each request.
        self.requests: list[tuple[str, str, Any]] = []
        self.authorizations: set[str] = set()
        #: The only token that is accepted; None = any.
        self.token: str | None = None

    def answer(self, path: str, query: dict[str, list[str]]) -> Answer:
        """As the API server does: a list by label, or an object."""
        if path in self.answers:
            return self.answers[path]
        parts = path.split("/")
        namespace = parts[parts.index("namespaces") + 1] if "namespaces" in parts else None
        for plural, objects in (
            ("inferenceclusters", self.clusters),
            ("pods", self.pods),
            ("configmaps", self.config_maps),
        ):
            here = [o for o in objects if namespace in (None, o["metadata"]["namespace"])]
            if parts[-1] == plural:
                wanted = query.get("labelSelector", [""])[0]
                return Answer({"metadata": {}, "items": [o for o in here if _selected(o, wanted)]})
            if parts[-2] == plural:
                found = next((o for o in here if o["metadata"]["name"] == parts[-1]), None)
                return (
                    Answer(found) if found else refusal(404, "NotFound", f'{plural} "{parts[-1]}" not found')
                )
        return refusal(404, "NotFound", "the server could not find the requested resource")


def refusal(status: int, reason: str, message: str) -> Answer:
    """A Status object."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message}
    return Answer({**body, "code": status}, status)


def forbidden(verb: str, resource: str) -> Answer:
    """As the authorizer says it."""
    text = f'{resource} is forbidden: User "jo" cannot {verb} resource "{resource}" in the namespace "ml"'
    return refusal(403, "Forbidden", text)


def _selected(obj: Json, selector: str) -> bool:
    labels = obj["metadata"].get("labels", {})
    for term in filter(None, selector.split(",")):
        key, equals, value = term.partition("=")
        if key not in labels or (equals and labels[key] != value):
            return False
    return True


@contextmanager
def serve(api: FakeApi, kubeconfig: Path) -> Iterator[int]:
    """Serve it on loopback and write a kubeconfig with the contexts `here` (namespace ml) and `other`."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._handle(None)

        def do_POST(self) -> None:
            self._handle(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _handle(self, body: Any) -> None:
            url = urlsplit(self.path)
            api.requests.append((self.command, url.path, body))
            authorization = self.headers.get("Authorization", "")
            api.authorizations.add(authorization)
            if api.token is not None and authorization != f"Bearer {api.token}":
                self._send(refusal(401, "Unauthorized", "Unauthorized"))
                return
            self._send(api.answer(url.path, parse_qs(url.query)))

        def _send(self, answer: Answer) -> None:
            self.send_response(answer.status)
            for key, value in answer.headers.items():
                self.send_header(key, value)
            if not answer.chunks:
                raw = json.dumps(answer.body).encode()
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)
                return
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for chunk in answer.chunks:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            if answer.cut:
                self.close_connection = True
            else:
                self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    port = server.server_address[1]
    contexts = [
        ("here", {"cluster": "c", "user": "u", "namespace": "ml"}),
        ("other", {"cluster": "c", "user": "u"}),
    ]
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                "users": [{"name": "u", "user": {"token": "secret-1"}}],
                "contexts": [{"name": name, "context": context} for name, context in contexts],
                "current-context": "here",
            }
        )
    )
    try:
        yield port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
