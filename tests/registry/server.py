"""Subjects, versions and ids in memory, over HTTP: paths, media type, codes and bodies as Confluent's registry has.

Its rule of compatibility is one of ours (``typed.schemas.compatibility``, backward), for schemas that are documents.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from pyromq.errors import ConfigError
from pyromq.typed.schemas.compatibility import Compatibility, breaks
from pyromq.typed.schemas.given import schema_of_document

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"


class Refusal(Exception):  # noqa: N818
    """A status and the registry's own code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class RegistryServer:
    """``with RegistryServer() as registry: registry.url``; ``asked`` are the requests, ``user`` who may ask."""

    def __init__(self, user: str = "") -> None:
        self.subjects: dict[str, list[dict[str, Any]]] = {}
        self.by_id: dict[int, dict[str, Any]] = {}
        self.asked: list[str] = []
        self.user = user
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer("GET")

            def do_POST(self) -> None:
                self._answer("POST")

            def do_DELETE(self) -> None:
                self._answer("DELETE")

            def _answer(self, method: str) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                given = self.rfile.read(length)
                server.asked.append(f"{method} {self.path}")
                try:
                    expected = "Basic " + base64.b64encode(server.user.encode()).decode()
                    if server.user and self.headers.get("Authorization") != expected:
                        raise Refusal(401, "Unauthorized")
                    if given and self.headers.get("Content-Type") != MEDIA_TYPE:
                        raise Refusal(415, "HTTP 415 Unsupported Media Type")
                    found, status = server.answer(method, self.path, json.loads(given) if given else {}), 200
                except Refusal as refusal:
                    found = {"error_code": refusal.code, "message": str(refusal)}
                    status = refusal.code if refusal.code < 1000 else refusal.code // 100
                data = json.dumps(found).encode()
                self.send_response(status)
                self.send_header("Content-Type", MEDIA_TYPE)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                """Silence."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def url(self) -> str:
        who = f"{self.user}@" if self.user else ""
        return f"http://{who}127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    # --- the API ---

    def answer(self, method: str, path: str, given: dict[str, Any]) -> Any:
        parts = urlsplit(path)
        asks_serialized = parse_qs(parts.query).get("format") == ["serialized"]
        for pattern, handler in (
            (r"GET /subjects", lambda: sorted(self.subjects)),
            (r"GET /subjects/([^/]+)/versions", lambda s: [each["version"] for each in self._versions(s)]),
            (r"GET /subjects/([^/]+)/versions/([^/]+)", self._version),
            (r"POST /subjects/([^/]+)/versions", lambda s: self._register(s, given)),
            (r"POST /subjects/([^/]+)", lambda s: self._lookup(s, given)),
            (r"GET /schemas/ids/(\d+)", lambda number: self._by_id(int(number), asks_serialized)),
            (r"POST /compatibility/subjects/([^/]+)/versions/latest", lambda s: self._compatibility(s, given)),
            (r"DELETE /subjects/([^/]+)", lambda s: [each["version"] for each in self.subjects.pop(s, [])]),
        ):
            if found := re.fullmatch(pattern, f"{method} {parts.path}"):
                return handler(*map(unquote, found.groups()))
        raise Refusal(404, "HTTP 404 Not Found")

    def _versions(self, subject: str) -> list[dict[str, Any]]:
        if subject not in self.subjects:
            raise Refusal(40401, f"Subject '{subject}' not found.")
        return self.subjects[subject]

    def _version(self, subject: str, version: str) -> dict[str, Any]:
        known = self._versions(subject)
        if version == "latest":
            return known[-1]
        for each in known:
            if str(each["version"]) == version:
                return each
        raise Refusal(40402, f"Version {version} not found.")

    def _register(self, subject: str, given: dict[str, Any]) -> dict[str, int]:
        known = self.subjects.get(subject, [])
        for each in known:
            if _content(each) == _content(given):
                return {"id": each["id"]}
        if not self._is_compatible(known, given):
            raise Refusal(
                409, f'Schema being registered is incompatible with an earlier schema for subject "{subject}"'
            )
        same = next((number for number, each in self.by_id.items() if _content(each) == _content(given)), None)
        number = same or len(self.by_id) + 1
        self.by_id[number] = _content(given)
        made = {"subject": subject, "version": len(known) + 1, "id": number, **_content(given)}
        self.subjects.setdefault(subject, []).append(made)
        return {"id": number}

    def _lookup(self, subject: str, given: dict[str, Any]) -> dict[str, Any]:
        for each in self._versions(subject):
            if _content(each) == _content(given):
                return each
        raise Refusal(40403, "Schema not found")

    def _by_id(self, number: int, asks_serialized: bool) -> dict[str, Any]:
        if number not in self.by_id:
            raise Refusal(40403, "Schema not found")
        found = self.by_id[number]
        if found.get("schemaType") == "PROTOBUF" and not asks_serialized:
            return {**found, "schema": 'syntax = "proto3";'}  # a real one prints the file
        return found

    def _compatibility(self, subject: str, given: dict[str, Any]) -> dict[str, bool]:
        return {"is_compatible": self._is_compatible(self._versions(subject), given)}

    def _is_compatible(self, known: list[dict[str, Any]], given: dict[str, Any]) -> bool:
        if given.get("schemaType") == "PROTOBUF":
            return True
        try:
            new = schema_of_document(given["schema"])
        except ConfigError as error:
            raise Refusal(
                42201, f"Input schema is an invalid {given.get('schemaType', 'AVRO')} schema: {error}"
            ) from error
        return not known or not breaks(
            schema_of_document(known[-1]["schema"]).fields, new.fields, Compatibility.BACKWARD
        )


def _content(schema: dict[str, Any]) -> dict[str, Any]:
    """What makes two schemas the same; AVRO is not named, as in the real one."""
    return {name: schema[name] for name in ("schema", "schemaType", "references") if schema.get(name)}
