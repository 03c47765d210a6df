"""A package index on loopback with the files of one folder (PEP 503), to try them before they are published."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Final

_NAME: Final = re.compile(r"^(?P<name>.+?)-\d.*(\.whl|\.tar\.gz)$")


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Address of the index, while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer(has_body=False)

        def do_GET(self) -> None:
            self._answer(has_body=True)

        def _answer(self, *, has_body: bool) -> None:
            found = answer(folder, self.path)
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", found[0] if found else "text/plain")
            self.send_header("Content-Length", str(len(found[1]) if found else 0))
            self.end_headers()
            if found and has_body:
                self.wfile.write(found[1])

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
            """Requests are not logged."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/simple/"
    finally:
        server.shutdown()
        server.server_close()


def answer(folder: Path, path: str) -> tuple[str, bytes] | None:
    """Content type and content of a path of the index, or None: not here, ask the next index."""
    files = {file.name: file for file in sorted(folder.iterdir()) if _NAME.match(file.name)}
    match [part for part in path.split("?")[0].split("/") if part]:
        case ["simple"]:
            return "text/html", _page(f"{name}/" for name in sorted({_project(name) for name in files}))
        case ["simple", project]:
            links = [
                f"../../files/{name}#sha256={sha256(file.read_bytes()).hexdigest()}"
                for name, file in files.items()
                if _project(name) == project
            ]
            return ("text/html", _page(links)) if links else None
        case ["files", name] if name in files:
            return "application/octet-stream", files[name].read_bytes()
    return None


def _project(file: str) -> str:
    found = _NAME.match(file)
    return re.sub(r"[-_.]+", "-", found["name"]).lower() if found else ""


def _page(links: Iterator[str] | list[str]) -> bytes:
    body = "".join(
        f'<a href="{link}">{link.partition("#")[0].rstrip("/").rpartition("/")[2]}</a><br>\n' for link in links
    )
    return f"<!DOCTYPE html>\n<html><body>\n{body}</body></html>\n".encode()
