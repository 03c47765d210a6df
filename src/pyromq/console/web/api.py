"""The registry of the HTTP API: method, path, role and types; one declaration serves requests and describes them.

    @functions.post("/topics/{topic}/messages", summary="Send a message", status=201)
    async def send(call: Call, path: TopicPath, body: NewMessage) -> Receipt: ...

Parameters have fixed names: ``path``, ``query`` and ``body`` are structs of msgspec, which check what came; what is
returned is a struct, None (204), or ``Events`` (a stream). GET is for readers, all else for operators unless told.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any, Final, TypeVar, get_origin, get_type_hints

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from pyromq.console.auth.roles import ConsoleIdentity, ConsoleRole
from pyromq.console.desk import Desk
from pyromq.console.web.streams import Events
from pyromq.console.web.visit import BadRequestError, read_body

FunctionT = TypeVar("FunctionT", bound=Callable[..., Awaitable[Any]])
PREFIX: Final = "/api/v1"
_PARTS: Final = ("path", "query", "body")


@dataclass(frozen=True, slots=True)
class Call:
    """Who asks, and what a function works with."""

    desk: Desk
    who: ConsoleIdentity
    request: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiFunction:
    method: str
    path: str  # with the prefix
    tag: str
    summary: str
    role: ConsoleRole
    status: int
    handler: Callable[..., Awaitable[Any]]
    parts: Mapping[str, Any]  # types of path, query and body, those that it takes
    returns: Any

    @property
    def name(self) -> str:
        return f"{self.tag}_{self.handler.__name__}".replace("-", "_")

    @property
    def is_stream(self) -> bool:
        return self.returns is Events

    async def __call__(self, call: Call) -> Response | Events:
        """Call the handler with typed arguments. Raises BadRequestError for what does not fit its types, and what the
        handler raises.
        """
        given = {name: await _given(name, kind, call) for name, kind in self.parts.items()}
        result = await self.handler(call, **given)
        if result is None:
            return Response(status_code=204)
        if isinstance(result, Events | Response):
            return result
        return Response(msgspec.json.encode(result), self.status, media_type="application/json")


class Api:
    """Functions of one noun; ``tag`` names it in the description."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.functions: list[ApiFunction] = []
        self.get = partial(self._declare, "GET")
        self.post = partial(self._declare, "POST")
        self.put = partial(self._declare, "PUT")
        self.patch = partial(self._declare, "PATCH")
        self.delete = partial(self._declare, "DELETE")

    def _declare(
        self, method: str, path: str, *, summary: str, role: ConsoleRole | None = None, status: int = 200
    ) -> Callable[[FunctionT], FunctionT]:
        role = role or (ConsoleRole.READER if method == "GET" else ConsoleRole.OPERATOR)

        def declared(handler: FunctionT) -> FunctionT:
            hints = get_type_hints(handler, include_extras=True)
            parts = {name: hints[name] for name in list(signature(handler).parameters)[1:]}
            _check(handler.__qualname__, path, parts)
            self.functions.append(
                ApiFunction(
                    method=method,
                    path=path if path.startswith("/api/") else PREFIX + path,
                    tag=self.tag,
                    summary=summary,
                    role=role,
                    status=204 if hints["return"] is type(None) else status,
                    handler=handler,
                    parts=parts,
                    returns=hints["return"],
                )
            )
            return handler

        return declared


def _check(where: str, path: str, parts: Mapping[str, Any]) -> None:
    """Mistakes of a declaration, when its module is imported."""
    if strange := set(parts) - set(_PARTS):
        raise TypeError(f"{where}: a function of the API takes {', '.join(_PARTS)}, not {', '.join(sorted(strange))}")
    in_path = set(re.findall(r"{(\w+)}", path))
    named = {each.encode_name for each in msgspec.structs.fields(parts["path"])} if "path" in parts else set()
    if in_path != named:
        raise TypeError(f"{where}: the path has {sorted(in_path)}, its type {sorted(named)}")


async def _given(name: str, kind: Any, call: Call) -> Any:
    request = call.request
    try:
        if name == "path":
            return msgspec.convert(request.path_params, kind, strict=False)
        if name == "query":
            return msgspec.convert(_query(request, kind), kind, strict=False)
        content = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        if content != "application/json":
            raise BadRequestError(f"the body comes as application/json, not as {content[:100]}")
        return msgspec.json.decode(await read_body(request, call.desk.settings.body_bytes_max), type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadRequestError(f"{name}: {error}") from error


def _query(request: Request, kind: Any) -> dict[str, Any]:
    """Fields that are lists get all values of a name, the others the last one."""
    lists = {
        each.encode_name
        for each in msgspec.structs.fields(kind)
        if (get_origin(each.type) or each.type) in (list, tuple, set, frozenset)
    }
    query = request.query_params
    return {name: query.getlist(name) if name in lists else query[name] for name in query}
