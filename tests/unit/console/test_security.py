"""Who may do what over HTTP: every route of the registries is tried, so that a new one is covered by being declared."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from pyromq.console.auth.attempts import FREE_ATTEMPTS
from pyromq.console.auth.roles import ConsoleRole
from pyromq.console.web.protection import CSP, HEADERS, is_allowed_host
from pyromq.console.web.visit import Moved
from pyromq.errors import ConfigError
from pyromq.testing import ManualClock
from tests.unit.console.rig import BASE, PASSWORD, TOKEN, VIEWER_PASSWORD, XSS, Browser, ConsoleRig

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
SAFE = ("GET", "HEAD", "OPTIONS")


def filled(path: str) -> str:
    """An address of a route: its parts that vary get a value."""
    return re.sub(r"{\w+}", "x", path)


async def ask(rig: ConsoleRig, browser: Browser, method: str, path: str, **more: Any) -> httpx.Response:
    return await browser.http.request(method, path, **more)


# --- roles ---


async def test_a_stranger_gets_no_page_no_action_and_no_function() -> None:
    async with ConsoleRig() as rig:
        for page in rig.console.pages:
            if page.role is None:
                continue
            response = await ask(rig, rig.stranger, page.method, filled(page.path), headers=FORM)
            if page.method == "GET":
                assert response.status_code == 303, page.path
                assert response.headers["location"].startswith("/login"), page.path
            else:
                assert response.status_code == 401, page.path
        for function in rig.console.functions:
            response = await ask(rig, rig.stranger, function.method, filled(function.path))
            assert response.status_code == 401, function.path
            assert response.headers["www-authenticate"] == "Bearer"


async def test_a_reader_is_refused_by_every_unsafe_route_that_is_not_declared_for_readers() -> None:
    async with ConsoleRig() as rig:
        token = rig.desk.accounts.add_token("reader", ConsoleRole.READER)
        tried = 0
        for page in rig.console.pages:
            if page.role is ConsoleRole.OPERATOR:
                response = (
                    await rig.viewer.post(filled(page.path))
                    if page.method == "POST"
                    else (await rig.viewer.get(filled(page.path)))
                )
                assert response.status_code == 403, page.path
                tried += 1
        for function in rig.console.functions:
            if function.role is ConsoleRole.OPERATOR:
                path = filled(function.path).removeprefix("/api/v1")
                response = await rig.api(function.method, path, token=token, json={})
                assert response.status_code == 403, function.path
                assert response.json()["status"] == 403
                tried += 1
        assert tried >= 10


async def test_what_readers_may_send_is_a_short_list() -> None:
    """An unsafe route for readers or for everybody is a decision; it is written down here."""
    async with ConsoleRig() as rig:
        pages = {(each.method, each.path) for each in rig.console.pages if each.method not in SAFE}
        for_all = {
            (each.method, each.path)
            for each in rig.console.pages
            if each.method not in SAFE and each.role is not ConsoleRole.OPERATOR
        }
        assert for_all <= {("POST", "/login"), ("POST", "/logout")} | READERS_MAY
        functions = {
            (each.method, each.path)
            for each in rig.console.functions
            if each.method not in SAFE and each.role is not ConsoleRole.OPERATOR
        }
        assert functions <= READERS_MAY
        assert len(pages) > len(for_all)
        assert {each.path for each in rig.console.pages if each.role is None} == {"/login"}


READERS_MAY: set[tuple[str, str]] = set()
"""Unsafe routes that change nothing: previews and the like."""


# --- CSRF ---


async def test_every_action_refuses_a_form_without_the_token_of_its_session() -> None:
    async with ConsoleRig() as rig:
        for page in rig.console.pages:
            if page.method != "POST" or page.path == "/login":
                continue
            for body in ("", "csrf=", "csrf=wrong", f"csrf={rig.viewer.csrf}"):
                response = await ask(rig, rig.operator, "POST", filled(page.path), content=body, headers=FORM)
                assert response.status_code == 403, page.path
        for function in rig.console.functions:
            if function.method not in SAFE:
                response = await ask(rig, rig.operator, function.method, filled(function.path), json={})
                assert response.status_code == 403, f"{function.path}: a cookie alone sends nothing"


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "https://127.0.0.1:8082.evil"]
)
async def test_a_form_of_another_page_is_refused_even_with_the_token(origin: str) -> None:
    async with ConsoleRig() as rig:
        body = f"csrf={rig.operator.csrf}&name=x"
        headers = {**FORM, "Origin": origin}
        response = await ask(rig, rig.operator, "POST", "/access/tokens", content=body, headers=headers)
        assert response.status_code == 403
        login = await ask(rig, rig.stranger, "POST", "/login", content="name=admin", headers=headers)
        assert login.status_code == 403, "nor does it sign a visitor in as somebody else"


async def test_without_origin_the_referer_counts_and_without_both_nothing_goes() -> None:
    async with ConsoleRig() as rig:
        body = f"csrf={rig.operator.csrf}&name=by-referer"
        del rig.operator.http.headers["Origin"]
        response = await ask(rig, rig.operator, "POST", "/access/tokens", content=body, headers=FORM)
        assert response.status_code == 403
        headers = {**FORM, "Referer": f"{BASE}/access"}
        response = await ask(rig, rig.operator, "POST", "/access/tokens", content=body, headers=headers)
        assert response.status_code == 303


async def test_the_api_takes_a_session_with_its_token_in_a_header() -> None:
    async with ConsoleRig() as rig:
        headers = {"X-CSRF-Token": rig.operator.csrf}
        response = await ask(rig, rig.operator, "POST", "/api/v1/topics", json={"name": "a"}, headers=headers)
        assert response.status_code == 201


async def test_tokens_open_the_api_and_no_page() -> None:
    async with ConsoleRig() as rig:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert (await ask(rig, rig.stranger, "GET", "/", headers=headers)).status_code == 303
        assert (await rig.api("GET", "/cluster")).status_code == 200
        for wrong in ("wrong", TOKEN[:-1], f"{TOKEN}x", "%c3%bc"):
            assert (await rig.api("GET", "/cluster", token=wrong)).status_code == 401
        response = await ask(rig, rig.stranger, "GET", "/api/v1/cluster", headers={b"Authorization": b"Bearer \xff"})
        assert response.status_code == 401


# --- signing in ---


async def sign_in(browser: Browser, password: str, name: str = "admin", **fields: str) -> httpx.Response:
    return await browser.post("/login", {"name": name, "password": password, **fields})


async def test_signing_in_begins_a_session_and_signing_out_ends_it() -> None:
    async with ConsoleRig() as rig:
        response = await sign_in(rig.stranger, PASSWORD, next="/topics?q=a")
        assert response.status_code == 303
        assert response.headers["location"] == "/topics?q=a"
        cookie = response.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Path=/" in cookie and "Secure" not in cookie
        page = await rig.stranger.page("/")
        csrf = re.search(r'name="csrf" content="([^"]+)"', page)
        assert csrf is not None
        rig.stranger.csrf = csrf[1]
        taken = dict(rig.stranger.http.cookies)
        assert (await rig.stranger.post("/logout")).status_code == 303
        rig.stranger.http.cookies.update(taken)
        assert (await rig.stranger.get("/")).status_code == 303, "the cookie that somebody copied is worth nothing"


async def test_under_https_cookies_are_for_https_alone() -> None:
    async with ConsoleRig(behind_https=True) as rig:
        response = await sign_in(rig.stranger, PASSWORD)
        assert response.headers["set-cookie"].startswith("__Host-pyromq=")
        assert "Secure" in response.headers["set-cookie"]
        assert response.headers["strict-transport-security"]


async def test_an_id_that_somebody_planted_is_not_taken_over() -> None:
    async with ConsoleRig() as rig:
        rig.stranger.http.cookies.set("pyromq_console_8082", "planted", domain="127.0.0.1")
        await sign_in(rig.stranger, PASSWORD)
        assert not rig.desk.sessions.is_open("planted")
        viewer_id = rig.viewer.http.cookies["pyromq_console_8082"]
        assert (await sign_in(rig.viewer, PASSWORD)).status_code == 303
        assert rig.viewer.http.cookies["pyromq_console_8082"] != viewer_id
        assert not rig.desk.sessions.is_open(viewer_id), "who signs in again leaves the old session"


async def test_a_reader_signs_in_with_its_own_password() -> None:
    async with ConsoleRig() as rig:
        assert (await sign_in(rig.stranger, PASSWORD, name="viewer")).status_code == 403
        assert (await sign_in(rig.stranger, VIEWER_PASSWORD, name="viewer")).status_code == 303
        assert "read-only" in await rig.stranger.page("/")


async def test_guessing_is_slowed_down_and_says_for_how_long() -> None:
    clock = ManualClock()
    async with ConsoleRig(clock=clock) as rig:
        for _ in range(FREE_ATTEMPTS):
            assert (await sign_in(rig.stranger, "wrong")).status_code == 403
        refused = await sign_in(rig.stranger, PASSWORD)
        assert refused.status_code == 429, "the right one has to wait as well"
        assert int(refused.headers["retry-after"]) >= 1
        assert "too many wrong passwords" in refused.text
        clock.advance_ms(60_000)
        assert (await sign_in(rig.stranger, PASSWORD)).status_code == 303
        await rig.viewer.page("/access")  # those who are signed in noticed nothing


@pytest.mark.parametrize(
    "onward", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:x", "/a\nb", ""]
)
async def test_signing_in_leads_nowhere_else(onward: str) -> None:
    async with ConsoleRig() as rig:
        assert (await sign_in(rig.stranger, PASSWORD, next=onward)).headers["location"] == "/"


def test_no_page_leads_out_of_the_console() -> None:
    for path in ("//evil.example", "https://evil.example", "topics", "/\\evil"):
        with pytest.raises(ConfigError, match="leads out"):
            Moved(path)


async def test_a_password_that_changed_ends_other_sessions_and_is_shown_once() -> None:
    async with ConsoleRig() as rig:
        page = await rig.act("/access/tokens", {"name": "ci", "role": "operator"})
        token = re.search(r"<code>(pmq_[\w-]+)</code>", page)
        assert token is not None
        assert (await rig.api("GET", "/cluster", token=token[1])).status_code == 200
        assert token[1] not in await rig.page("/access")
        await rig.act("/access/tokens/revoke", {"name": "ci"})
        assert (await rig.api("GET", "/cluster", token=token[1])).status_code == 401


# --- every response ---


async def test_every_response_has_the_headers_errors_included() -> None:
    async with ConsoleRig() as rig:
        responses = [
            await rig.stranger.get("/login"),
            await rig.stranger.get("/"),
            await rig.operator.get("/"),
            await rig.operator.get("/nothing/here"),
            await rig.operator.get("/topics/absent"),
            await rig.operator.http.delete("/topics"),
            await rig.operator.get("/static/app.css"),
            await rig.operator.get("/static/../app.py"),
            await rig.operator.post("/access/tokens", {"name": ""}),
            await rig.api("GET", "/cluster"),
            await rig.api("GET", "/topics/absent"),
            await rig.api("GET", "/nothing"),
            await rig.api("POST", "/topics", content=b"{"),
            await rig.stranger.http.get("/", headers={"Host": "evil.example"}),
        ]
        assert {each.status_code for each in responses} >= {200, 303, 400, 403, 404, 405, 422}
        for response in responses:
            for name, value in HEADERS.items():
                assert response.headers.get(name) == value, (response.url, name)
            if "/static/app" not in str(response.url):
                assert response.headers["cache-control"] == "no-store", response.url


def test_the_policy_allows_nothing_from_elsewhere_and_nothing_inline() -> None:
    assert CSP.startswith("default-src 'none'")
    for word in ("unsafe", "http:", "https:", "*"):
        assert word not in CSP


async def test_a_mistake_of_the_console_is_told_without_its_insides(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with ConsoleRig() as rig:

        async def broken(*_: object) -> None:
            raise RuntimeError("insides of the console")

        monkeypatch.setattr(rig.desk.admin.topics, "list", broken)
        for response in (await rig.get("/topics"), await rig.api("GET", "/topics")):
            assert response.status_code == 500
            assert "insides" not in response.text
        assert "insides of the console" in caplog.text


# --- names of the console (DNS rebinding) ---


@pytest.mark.parametrize(
    ("host", "is_allowed"),
    [
        ("127.0.0.1:8082", True),
        ("localhost:8082", True),
        ("LOCALHOST", True),
        ("localhost.", True),
        ("[::1]:8082", True),
        ("10.1.2.3", True),
        ("console.example", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("", False),
        ("[", False),
        ("a b", False),
    ],
)
def test_a_browser_may_come_by_address_or_by_a_known_name(host: str, is_allowed: bool) -> None:
    assert is_allowed_host(host, frozenset(("localhost", "console.example"))) is is_allowed


async def test_another_name_gets_nothing_not_even_static_files() -> None:
    async with ConsoleRig(allowed_hosts=("Console.Example",)) as rig:
        for path in ("/", "/login", "/static/app.js", "/api/v1/cluster"):
            response = await rig.operator.http.get(path, headers={"Host": "evil.example:8082"})
            assert response.status_code == 403
            assert "--allow-host" in response.json()["detail"]
        assert (await rig.operator.http.get("/login", headers={"Host": "console.example"})).status_code in (200, 303)


# --- what comes in ---


async def test_large_requests_are_refused_before_they_are_held() -> None:
    async with ConsoleRig(body_bytes_max=1_000) as rig:
        response = await rig.post("/topics/new", {"topic": "x" * 2_000})
        assert response.status_code == 413

        async def parts() -> Any:
            for _ in range(100):
                yield b'{"a": "' + b"x" * 100

        response = await rig.api("POST", "/topics", content=parts())
        assert response.status_code == 413
        assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("content", [b"\xff\xfe", b"csrf=%ff%fe", b"&" * 30_000, b"a=1&" * 25_000])
async def test_forms_that_cannot_be_read_are_refused(content: bytes) -> None:
    async with ConsoleRig() as rig:
        response = await rig.operator.http.post("/access/tokens", content=content, headers=FORM)
        assert response.status_code in (400, 403)
        other = await rig.operator.http.post("/access/tokens", json={"csrf": rig.operator.csrf})
        assert other.status_code == 400


async def test_strange_addresses_are_not_found() -> None:
    async with ConsoleRig() as rig:
        for path in (
            f"/{XSS}",
            "/topics//",
            "/%00",
            "/static/%2e%2e/settings.py",
            "/static/",
            "/api/v1/",
            "/topics/" + "x" * 3_000,
        ):
            response = await rig.operator.get(path)
            assert response.status_code in (404, 422), path
            assert "<script>alert" not in response.text


async def test_who_has_not_signed_in_sends_no_large_forms() -> None:
    async with ConsoleRig() as rig:
        form = {"name": "admin", "password": "x" * (65 << 10)}
        refused = await rig.stranger.http.post("/login", data=form)
        assert refused.status_code == 413
