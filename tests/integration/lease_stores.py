"""Lease stores to try things with: real etcd and PostgreSQL where Debian's are installed, and a small API server."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from pyromq.testing import free_port


@contextmanager
def etcd() -> Iterator[str]:
    """The address of an etcd with one member; skips where there is none."""
    program = shutil.which("etcd")
    if program is None:
        pytest.skip("etcd is not installed (apt-get install etcd-server): leases were not tried on it")
    clients, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    with tempfile.TemporaryDirectory(prefix="pyromq-etcd-") as folder:
        command = [
            *(program, "--data-dir", folder, "--name", "one", "--initial-cluster", f"one={peers}"),
            *("--listen-client-urls", clients, "--advertise-client-urls", clients),
            *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--unsafe-no-fsync"),
        ]
        if "--unsafe-no-fsync" not in subprocess.run([program, "--help"], capture_output=True, text=True).stdout:
            command.remove("--unsafe-no-fsync")
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            await_health(clients, process)
            yield clients
        finally:
            process.kill()
            process.wait(30)


def await_health(address: str, process: subprocess.Popen[bytes]) -> None:
    """Returns once that etcd says that it is healthy."""
    stopped = threading.Event()
    for _ in range(600):
        assert process.poll() is None, "etcd did not start"
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=2) as response:
                if json.load(response).get("health") == "true":
                    return
        except OSError:
            stopped.wait(0.05)
    raise AssertionError("etcd did not become healthy")


@contextmanager
def api_server(token: str = "") -> Iterator[str]:
    """Leases as Kubernetes serves them: resource versions, conflicts, the token of a service account."""
    leases: dict[str, dict[str, Any]] = {}
    lock = threading.Lock()
    version = iter(range(1, 1_000_000))

    class Requests(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            with lock:
                found = leases.get(self.path)
            self._answer(200, found) if found else self._answer(404, {"message": "not found"})

        def do_POST(self) -> None:
            body = self._body()
            path = f"{self.path}/{body['metadata']['name']}"
            with lock:
                if path in leases:
                    return self._answer(409, {"message": "already exists"})
                body["metadata"]["resourceVersion"] = str(next(version))
                leases[path] = body
            self._answer(201, body)

        def do_PUT(self) -> None:
            body = self._body()
            with lock:
                known = leases.get(self.path)
                if known is None:
                    return self._answer(404, {"message": "not found"})
                if known["metadata"]["resourceVersion"] != body["metadata"].get("resourceVersion"):
                    return self._answer(409, {"message": "the object has been modified"})
                body["metadata"]["resourceVersion"] = str(next(version))
                leases[self.path] = body
            self._answer(200, body)

        def _body(self) -> dict[str, Any]:
            body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            return body

        def _answer(self, status: int, body: object) -> None:
            if token and self.headers.get("Authorization") != f"Bearer {token}":
                status, body = 401, {"message": "Unauthorized"}
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Requests)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
