"""A client of a schema registry that speaks Confluent's REST API (Confluent, Karapace, Apicurio, Redpanda).

    registry = SchemaRegistry("http://10.0.0.9:8081")
    registry.register("orders-value", '{"type": "record", …}')      ──▶ RegisteredSchema(id=7, version=1, …)
    registry.latest("orders-value"); registry.by_id(7)

Synchronous, on the standard library. What has an id never changes, so schemas by id are asked for once; the newest one
of a subject is asked for whenever it is wanted. Basic authentication by the URL (``http://user:password@host:8081``),
or by such a URL in PYROMQ_REGISTRY, for the registry that it names and no other.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import Request, urlopen

import msgspec

from pyromq.errors import ConfigError, ConnectFailedError, MQError, RemoteProtocolError
from pyromq.typed.schemas.given import SCHEMA_BYTES_MAX, BodySchema, schema_of_document
from pyromq.typed.schemas.payloads import PayloadFormat
from pyromq.typed.schemas.protobuf_schema import fields_of_protobuf, type_of_descriptors

T = TypeVar("T")

PREFIX: Final = "registry:"
VARIABLE: Final = "PYROMQ_REGISTRY"
TIMEOUT_S: Final = 10.0
_MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_PAYLOADS: Final = {"AVRO": PayloadFormat.AVRO, "JSON": PayloadFormat.JSON, "PROTOBUF": PayloadFormat.PROTOBUF}
_IDS_MAX: Final = 1_000  # schemas by id that are kept
_DEPTH_MAX: Final = 16  # of references


class RegistryError(MQError):
    """A registry refused a request; ``status`` is HTTP's, ``code`` its own."""

    def __init__(self, *, url: str, status: int, code: int, reason: str) -> None:
        self.status, self.code, self.reason = status, code, reason
        super().__init__(f"the schema registry {url} refused: {reason} ({code or status})")


class SchemaReference(msgspec.Struct, frozen=True):
    """A schema that another one uses, by the name that it calls it."""

    name: str
    subject: str
    version: int


class RegisteredSchema(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A schema as a registry keeps it; ``schema`` is its text, ``schema_type`` AVRO, JSON or PROTOBUF."""

    schema: str
    id: int = 0
    subject: str = ""
    version: int = 0
    schema_type: str = "AVRO"
    references: list[SchemaReference] = []

    @property
    def payload(self) -> PayloadFormat:
        """How its bodies are written. Raises ConfigError for a type that is not known here."""
        found = _PAYLOADS.get(self.schema_type.upper())
        if found is None:
            raise ConfigError(
                f"schema {self.id} of the registry is {self.schema_type}: {', '.join(_PAYLOADS)} are read"
            )
        return found


class SchemaRegistry:
    """One registry; threads may share it. Methods raise RegistryError, ConnectFailedError, RemoteProtocolError."""

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self.url, self._authorization = _address(url)
        self._given = url
        self._timeout_s = timeout_s
        self._by_id: dict[tuple[int, str], RegisteredSchema] = {}

    def subjects(self) -> list[str]:
        """All subjects."""
        return self._ask("GET", "/subjects", list[str])

    def versions(self, subject: str) -> list[int]:
        """The versions of a subject."""
        return self._ask("GET", f"/subjects/{_part(subject)}/versions", list[int])

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest version of a subject."""
        return self.version(subject, "latest")

    def version(self, subject: str, version: int | str) -> RegisteredSchema:
        """That version of a subject."""
        return self._ask("GET", f"/subjects/{_part(subject)}/versions/{version}", RegisteredSchema)

    def by_id(self, schema_id: int, *, serialized: bool = False) -> RegisteredSchema:
        """The schema with an id; ``serialized`` asks for a Protobuf file as its descriptor in base 64."""
        form = "serialized" if serialized else ""
        found = self._by_id.get((schema_id, form))
        if found is None:
            query = f"?format={form}" if form else ""
            found = self._ask("GET", f"/schemas/ids/{schema_id}{query}", RegisteredSchema)
            found = msgspec.structs.replace(found, id=schema_id)
            if len(self._by_id) >= _IDS_MAX:
                self._by_id.clear()
            self._by_id[schema_id, form] = found
        return found

    def register(
        self, subject: str, schema: str, schema_type: str = "AVRO", references: Sequence[SchemaReference] = ()
    ) -> RegisteredSchema:
        """Keep a schema as the next version of a subject, unless it is there already; the registry checks whether it
        may follow. Returns it with its id and version.
        """
        given = _given(schema, schema_type, references)
        made = self._ask("POST", f"/subjects/{_part(subject)}/versions", dict[str, Any], given)
        found = self.lookup(subject, schema, schema_type, references)
        return found if found is not None else RegisteredSchema(schema=schema, id=int(made["id"]), subject=subject)

    def lookup(
        self, subject: str, schema: str, schema_type: str = "AVRO", references: Sequence[SchemaReference] = ()
    ) -> RegisteredSchema | None:
        """The version of a subject that is this schema, if there is one."""
        try:
            return self._ask(
                "POST", f"/subjects/{_part(subject)}", RegisteredSchema, _given(schema, schema_type, references)
            )
        except RegistryError as error:
            if error.status == 404:
                return None
            raise

    def is_compatible(
        self, subject: str, schema: str, schema_type: str = "AVRO", references: Sequence[SchemaReference] = ()
    ) -> bool:
        """Whether a schema may follow the newest version of a subject, by the registry's rule."""
        path = f"/compatibility/subjects/{_part(subject)}/versions/latest"
        try:
            answer = self._ask("POST", path, dict[str, Any], _given(schema, schema_type, references))
        except RegistryError as error:
            if error.status == 404:  # nothing to be compatible with
                return True
            raise
        return bool(answer.get("is_compatible"))

    def delete(self, subject: str) -> list[int]:
        """Forget a subject; return the versions that it had."""
        return self._ask("DELETE", f"/subjects/{_part(subject)}", list[int])

    # --- as schemas of bodies ---

    def body_schema(self, subject: str) -> tuple[PayloadFormat, BodySchema]:
        """How bodies of a subject are written by its newest version. Raises ConfigError for what is not read here."""
        newest = self.latest(subject)
        payload = newest.payload
        made = self._protobuf(newest) if payload is PayloadFormat.PROTOBUF else schema_of_document(newest.schema)
        return payload, replace(made, registry=self._given, registry_id=newest.id)

    def writer_of(self, schema_id: int) -> str:
        """The Avro schema that a body was written with."""
        return self.by_id(schema_id).schema

    def _protobuf(self, newest: RegisteredSchema) -> BodySchema:
        files: dict[str, bytes] = {}
        self._add_descriptor("", self.by_id(newest.id, serialized=True), files, 0)
        found = type_of_descriptors(list(files.values()))
        return BodySchema(fields_of_protobuf(found), protobuf=found, name=found.name)

    def _add_descriptor(self, name: str, schema: RegisteredSchema, files: dict[str, bytes], depth: int) -> None:
        """Add a file behind those that it imports, each once."""
        if depth > _DEPTH_MAX:
            raise ConfigError(f"the schema {schema.id} of the registry refers to others deeper than {_DEPTH_MAX}")
        for each in schema.references:
            if each.name not in files:
                inner = self.version(each.subject, each.version)
                self._add_descriptor(each.name, self.by_id(inner.id, serialized=True), files, depth + 1)
        try:
            files[name] = base64.b64decode(schema.schema, validate=True)
        except (binascii.Error, ValueError) as error:
            text = "the registry does not give descriptors (format=serialized): keep a descriptor set with the topic"
            raise ConfigError(text) from error

    # --- requests ---

    def _ask(self, method: str, path: str, kind: type[T], body: object = None) -> T:
        headers = {"Accept": _MEDIA_TYPE, **({"Authorization": self._authorization} if self._authorization else {})}
        data = None
        if body is not None:
            headers["Content-Type"], data = _MEDIA_TYPE, msgspec.json.encode(body)
        request = Request(self.url + path, data, headers, method=method)
        try:
            with urlopen(request, timeout=self._timeout_s) as response:
                text = response.read(SCHEMA_BYTES_MAX * 2)
        except HTTPError as error:
            with error:
                raise _refusal(self.url, error.code, error.read(SCHEMA_BYTES_MAX)) from None
        except (URLError, OSError) as error:
            reason = getattr(error, "reason", error)
            raise ConnectFailedError(f"the schema registry {self.url} cannot be reached: {reason}") from error
        try:
            return msgspec.json.decode(text, type=kind)
        except msgspec.MsgspecError as error:
            raise RemoteProtocolError(f"{self.url}{path} is no schema registry: {error}") from error


def subject_of(text: str, topic: str) -> tuple[str, str]:
    """The URL and the subject in ``registry:URL#SUBJECT``; without one it is ``TOPIC-value``. Raises ConfigError."""
    url, _, subject = text.strip().removeprefix(PREFIX).partition("#")
    _address(url)
    return url, subject or f"{topic}-value"


def _address(url: str) -> tuple[str, str]:
    """The URL without who asks, and the header that says it."""
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"{url!r} is no address of a schema registry: write registry:http://host:8081")
    plain = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))
    who = parts if parts.username is not None else urlsplit(os.environ.get(VARIABLE, ""))
    is_the_same = (who.scheme, who.netloc.rpartition("@")[2]) == (parts.scheme, parts.netloc.rpartition("@")[2])
    if not who.username or not is_the_same:
        return plain, ""
    given = f"{unquote(who.username)}:{unquote(who.password or '')}"
    return plain, "Basic " + base64.b64encode(given.encode()).decode()


def _part(subject: str) -> str:
    return quote(subject, safe="")


def _given(schema: str, schema_type: str, references: Sequence[SchemaReference]) -> dict[str, object]:
    given: dict[str, object] = {"schema": schema}
    if schema_type != "AVRO":
        given["schemaType"] = schema_type
    if references:
        given["references"] = list(references)
    return given


def _refusal(url: str, status: int, body: bytes) -> RegistryError:
    try:
        said = msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.MsgspecError:
        said = {}
    code = said.get("error_code", 0)
    reason = str(said.get("message") or f"HTTP {status}")[:300]
    return RegistryError(url=url, status=status, code=code if isinstance(code, int) else 0, reason=reason)
