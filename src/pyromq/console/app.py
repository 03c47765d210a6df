"""The console as an ASGI application: routes of pages and of the API, behind admission and protection."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from pyromq.aio import Client
from pyromq.clock import Clock
from pyromq.console import api, pages
from pyromq.console.auth.roles import ConsoleIdentity
from pyromq.console.badges import Badges
from pyromq.console.desk import Desk
from pyromq.console.settings import ConsoleSettings
from pyromq.console.web.admission import CSRF_FIELD, Admitted, admit, check_csrf
from pyromq.console.web.api import Api, ApiFunction, Call
from pyromq.console.web.discovery import declared_in
from pyromq.console.web.formatting import link
from pyromq.console.web.forms import SentForm
from pyromq.console.web.openapi import description_of
from pyromq.console.web.pages import PageRoute, Pages
from pyromq.console.web.problems import (
    ForbiddenError,
    NoSuchPageError,
    NotAllowedHereError,
    NotSignedInError,
    headers_of,
    problem_of,
    problem_response,
)
from pyromq.console.web.protection import SAFE_METHODS, Protection
from pyromq.console.web.rendering import STATIC, Renderer
from pyromq.console.web.streams import Events, stream_response
from pyromq.console.web.visit import BodyTooLargeError, Drawn, File, Moved, Visit, read_form
from pyromq.errors import MQError, printable

logger = logging.getLogger(__name__)

_KEPT: Final = "public, max-age=31536000, immutable"  # static files have their hash in the address
_PARTS: Final = re.compile(r"{(\w+)}")
_NOT_SHOWN_AGAIN: Final = (NotSignedInError, ForbiddenError, BodyTooLargeError)
_STRANGERS_BYTES_MAX: Final = 64 << 10  # of a form that somebody sends who has not signed in


def create_app(settings: ConsoleSettings, *, client: Client | None = None, clock: Clock | None = None) -> Console:
    """An application whose lifespan opens its client; ``client`` and ``clock`` are for tests."""
    return Console(Desk(settings, client=client, clock=clock))


class Console:
    """``desk`` is what pages work with; ``pages`` and ``functions`` are all that it serves beside static files."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.pages: Sequence[PageRoute] = [
            each for found in declared_in(pages, "pages", Pages) for each in found.routes
        ]
        self.functions: Sequence[ApiFunction] = [
            each for found in declared_in(api, "functions", Api) for each in found.functions
        ]
        self.description = description_of(self.functions)
        self.badges = Badges(desk)
        self.renderer = Renderer(self.pages, self.badges.shown)
        app = Starlette(
            routes=[*self._routes(), Mount("/static", _Static(directory=STATIC))],
            exception_handlers={HTTPException: self._not_here, Exception: self._failed},
            lifespan=self._lifespan,
        )
        app.router.redirect_slashes = False
        app.state.console = self
        settings = desk.settings
        hosts = (*settings.allowed_hosts, settings.host)
        self._app = Protection(app, allowed_hosts=hosts, is_encrypted=settings.is_encrypted)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        async with self.desk:
            self.desk.sample_on(self.badges.run())
            yield

    def _routes(self) -> list[Route]:
        """Paths without parts that vary come first: ``/topics/new`` is not a topic."""
        by_path: dict[str, dict[str, Callable[[Request], Awaitable[Response]]]] = {}
        for page in self.pages:
            by_path.setdefault(page.path, {})[page.method] = self._page_endpoint(page)
        for function in self.functions:
            by_path.setdefault(function.path, {})[function.method] = self._function_endpoint(function)
        ordered = sorted(by_path.items(), key=lambda each: [part.startswith("{") for part in each[0].split("/")])
        return [Route(path, _by_method(found), methods=list(found)) for path, found in ordered]

    # --- pages ---

    def _page_endpoint(self, page: PageRoute) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            visit = Visit(desk=self.desk, request=request)
            try:
                admitted = admit(request, self.desk, page.role, by_token=False)
                visit = await self._visit(request, page, admitted)
                response = self._answer(await page.handler(visit), visit, page, admitted)
            except Exception as error:  # also a mistake of ours: the visitor gets a page that says so, and it is logged
                response = await self._shown_again(error, visit, page) or self._page_problem(error, visit)
            _note(request, visit.who, response)
            return response

        return endpoint

    async def _visit(self, request: Request, page: PageRoute, admitted: Admitted) -> Visit:
        fields: tuple[tuple[str, str], ...] = ()
        if page.method == "POST":
            most = self.desk.settings.body_bytes_max
            fields = await read_form(request, most if admitted.who is not None else min(most, _STRANGERS_BYTES_MAX))
            check_csrf(request, admitted, dict(fields).get(CSRF_FIELD, ""))
        return Visit(
            desk=self.desk,
            request=request,
            who=admitted.who,
            session=admitted.session,
            path=request.path_params,
            query=request.query_params,
            fields=fields,
        )

    def _answer(self, answer: object, visit: Visit, page: PageRoute, admitted: Admitted) -> Response:
        match answer:
            case Drawn():
                model = dict(answer.model)
                text = self.renderer.page(answer.template, visit, answer.title or page.title, model)
                return Response(text, answer.status, media_type="text/html")
            case Moved():
                if visit.session is not None and (said := answer.as_said) is not None:
                    visit.session.say(said)
                return RedirectResponse(answer.path, 303)
            case File():
                name = "".join(each if each.isalnum() or each in "-_." else "_" for each in answer.name)
                headers = {"Content-Disposition": f'attachment; filename="{name}"'}
                if isinstance(answer.body, bytes | str):
                    return Response(answer.body, headers=headers, media_type=answer.media_type)
                return StreamingResponse(answer.body, headers=headers, media_type=answer.media_type)
            case Events():
                return stream_response(answer, self.desk, lambda: admitted.is_welcome(self.desk))
            case Response():
                return answer
        raise TypeError(f"{page.path} answered {type(answer).__name__}")

    async def _shown_again(self, error: Exception, visit: Visit, page: PageRoute) -> Response | None:
        """The page of a form that was refused, with what was sent; None where there is no such page."""
        form = next((each for each in self.pages if each.method == "GET" and each.path == page.again), None)
        if form is None or not visit.fields or not isinstance(error, MQError) or isinstance(error, _NOT_SHOWN_AGAIN):
            return None
        parts = {name: visit.path.get(name) or visit.form.get(name, "") for name in _PARTS.findall(form.path)}
        try:
            answer = await form.handler(replace(visit, path=parts, sent=SentForm(visit.fields, error)))
        except MQError:
            return None
        if not isinstance(answer, Drawn):
            return None
        problem = problem_of(error)
        text = self.renderer.page(
            answer.template,
            replace(visit, sent=SentForm(visit.fields, error)),
            answer.title or form.title,
            dict(answer.model),
        )
        return Response(text, problem.status, headers_of(error), media_type="text/html")

    def _page_problem(self, error: Exception, visit: Visit) -> Response:
        request = visit.request
        if isinstance(error, NotSignedInError) and request.method == "GET":
            path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return RedirectResponse(link("login", next=path if path != "/" else ""), 303)
        _log(error, request)
        problem = problem_of(error)
        text = self.renderer.page("problem.html", visit, problem.title, {"problem": problem})
        return Response(text, problem.status, headers_of(error), media_type="text/html")

    # --- functions of the API ---

    def _function_endpoint(self, function: ApiFunction) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            who: ConsoleIdentity | None = None
            try:
                admitted = admit(request, self.desk, function.role, by_token=True)
                check_csrf(request, admitted, "")
                who = admitted.who
                assert who is not None
                result = await function(Call(self.desk, who, request))
                if isinstance(result, Events):
                    return stream_response(result, self.desk, lambda: admitted.is_welcome(self.desk))
                response = result
            except Exception as error:  # as for pages
                _log(error, request)
                response = problem_response(error)
            _note(request, who, response)
            return response

        return endpoint

    # --- what no route takes ---

    async def _not_here(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code == 405:
            ours: MQError = NotAllowedHereError((error.headers or {}).get("Allow", "other methods"))
        else:
            ours = NoSuchPageError(f"there is nothing at {request.url.path[:200]}")
        if request.url.path.startswith(("/api/", "/static/")):
            return problem_response(ours)
        try:
            admitted = admit(request, self.desk, None, by_token=False)
        except MQError:
            admitted = Admitted(None)
        return self._page_problem(
            ours, Visit(desk=self.desk, request=request, who=admitted.who, session=admitted.session)
        )

    async def _failed(self, request: Request, error: Exception) -> Response:
        return problem_response(error)


class _Static(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        if response.status_code == 200:
            response.headers["Cache-Control"] = _KEPT if scope.get("query_string") else "no-cache"
        return response


def _by_method(
    endpoints: dict[str, Callable[[Request], Awaitable[Response]]],
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return await endpoints["GET" if request.method == "HEAD" else request.method](request)

    return endpoint


def _note(request: Request, who: ConsoleIdentity | None, response: Response) -> None:
    """Who changed what, or tried to."""
    if request.method not in SAFE_METHODS:
        name = "nobody" if who is None else f"token {who.token}" if who.token else who.name
        path = printable(request.url.path)
        logger.info("action: who=%s method=%s path=%s status=%d", name, request.method, path, response.status_code)


def _log(error: Exception, request: Request) -> None:
    """What is not ours is a mistake of the console; the path may hold names, never secrets."""
    if not isinstance(error, MQError):
        logger.error("request failed: method=%s path=%s", request.method, request.url.path, exc_info=error)
