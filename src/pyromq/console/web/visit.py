"""Visits: what a page or an API function gets to know about one request, and what a page answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from pyromq.console.auth.roles import ConsoleIdentity
from pyromq.console.auth.sessions import Said, SignedInSession
from pyromq.console.history.spans import TimeSpan
from pyromq.errors import ConfigError, MQError

if TYPE_CHECKING:
    from pyromq.console.desk import Desk
    from pyromq.console.web.forms import SentForm

_FIELDS_MAX = 20_000


class BodyTooLargeError(ConfigError):
    """The body of a request is larger than the console reads."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__(f"the request is larger than {bytes_max} bytes: send less at once")
        self.bytes_max = bytes_max


class BadRequestError(ConfigError):
    """What came cannot be read as what was asked for."""


class FieldError(ConfigError):
    """A field of a form is wrong; ``cause`` is the error that says so, if another one did."""

    cause: MQError | None = None

    def __init__(self, field: str, text: str, *, cause: MQError | None = None) -> None:
        super().__init__(text)
        self.field = field
        self.cause = cause


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """``path`` are the parts of the path in braces, ``query`` and ``form`` the first value of each field.

    ``who`` is None on the few pages that nobody has to sign in for. ``fields`` has every value of a form, in order.
    ``sent`` is a form that was refused, on the page that shows it again.
    """

    desk: Desk
    request: Request
    who: ConsoleIdentity | None = None
    session: SignedInSession | None = None
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    fields: tuple[tuple[str, str], ...] = ()
    sent: SentForm | None = None

    @property
    def form(self) -> dict[str, str]:
        return dict(reversed(self.fields))

    def all_of(self, name: str) -> list[str]:
        """Every value of a field: what boxes were ticked."""
        return [value for key, value in self.fields if key == name]

    @property
    def is_operator(self) -> bool:
        return self.who is not None and self.who.is_operator

    @property
    def by(self) -> str:
        """The name of who is signed in, for jobs that are started."""
        return self.who.name if self.who else ""

    @property
    def span(self) -> TimeSpan:
        """The time that charts of the page show: the field ``range`` of the query."""
        return TimeSpan.of(self.query.get("range", ""))

    @property
    def now_ms(self) -> int:
        return self.desk.clock.now_ms()


@dataclass(frozen=True, slots=True)
class Drawn:
    """A page: its template, what the template gets beside ``visit``, and a title where it is not the page's own."""

    template: str
    model: Mapping[str, Any] = field(default_factory=dict)
    title: str = ""
    status: int = 200


@dataclass(frozen=True, slots=True)
class Moved:
    """The browser goes on to another page of the console, which shows what was ``said``."""

    path: str
    said: str = ""
    kind: str = "good"
    secret: str = ""  # shown once on the next page

    def __post_init__(self) -> None:
        if not self.path.startswith("/") or self.path.startswith(("//", "/\\")):
            raise ConfigError(f"{self.path!r} leads out of the console")

    @property
    def as_said(self) -> Said | None:
        return Said(self.said, self.kind, self.secret) if self.said else None


@dataclass(frozen=True, slots=True)
class File:
    """Something to save; ``body`` may be an asynchronous iterator of bytes."""

    name: str
    body: Any
    media_type: str = "application/octet-stream"


async def read_body(request: Request, bytes_max: int) -> bytes:
    """Read the body of a request. Raises BodyTooLargeError before more than ``bytes_max`` is held."""
    told = request.headers.get("content-length", "")
    if told.isdigit() and int(told) > bytes_max:
        raise BodyTooLargeError(bytes_max)
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > bytes_max:
                raise BodyTooLargeError(bytes_max)
            parts.append(part)
    except ClientDisconnect as error:
        raise BadRequestError("the request ended early") from error
    return b"".join(parts)


async def read_form(request: Request, bytes_max: int) -> tuple[tuple[str, str], ...]:
    """The fields of a form as browsers send it by default. Raises BadRequestError, BodyTooLargeError."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise BadRequestError(f"a form comes as application/x-www-form-urlencoded, not as {kind or 'nothing'}")
    body = await read_body(request, bytes_max)
    try:
        text = body.decode("ascii")
        return tuple(parse_qsl(text, keep_blank_values=True, max_num_fields=_FIELDS_MAX, errors="strict"))
    except ValueError as error:
        raise BadRequestError(f"the form cannot be read: {error}") from error
