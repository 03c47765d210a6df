"""``pyromq health``: is the server of this machine live, ready, started?"""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import click

from pyromq.cli.declared import Option
from pyromq.cli.exit_codes import ExitCode
from pyromq.cli.output.tables import Column, Form, FormOption, form_for, write_rows
from pyromq.errors import ConfigError, ConnectFailedError

if TYPE_CHECKING:
    from http.client import HTTPConnection

_DEFAULT_URL = "http://127.0.0.1:5557"
_BYTES_MAX = 1 << 20
_COLUMNS = (
    Column("severity", "", styles={"ok": "green", "warning": "yellow", "bad": "bold red"}, whole=True),
    Column("check", "check"),
    Column("text", "finding"),
)


class Check(StrEnum):
    ready = "ready"
    live = "live"
    startup = "startup"


UrlOption = Annotated[
    str,
    Option("--url", envvar=["PYROMQ_HEALTH_URL"], metavar="URL", help="Where the server shows its metrics and health."),
]
CheckOption = Annotated[
    Check, Option("--check", help="What is asked: ready for clients, live, or done with its start.")
]
TimeoutOption = Annotated[int, Option("--timeout", min=1, metavar="SECONDS", help="How long to wait for the answer.")]


def health(
    check: CheckOption = Check.ready,
    url: UrlOption = _DEFAULT_URL,
    timeout: TimeoutOption = 5,
    output: FormOption = None,
) -> None:
    """Query a server's health endpoint. Exit code 0: healthy; 5: not healthy; 4: no answer."""
    verdict = _ask(url, f"/health/{check.value}", timeout)
    form = form_for(output, sys.stdout)
    if form in (Form.TABLE, Form.CSV):
        rows = [{"severity": "bad", "check": check.value, "text": text} for text in verdict["reasons"]]
        rows += [{"severity": "warning", "check": check.value, "text": text} for text in verdict["warnings"]]
        rows = rows or [{"severity": "ok", "check": check.value, "text": verdict.get("note") or "ok"}]
        write_rows(sys.stdout, form, _COLUMNS, rows)
    else:
        import json

        sys.stdout.write(json.dumps(verdict, ensure_ascii=False) + "\n")
    if verdict["status"] != "ok":
        raise click.exceptions.Exit(ExitCode.PARTIAL)


def _ask(url: str, path: str, timeout_s: int) -> dict[str, Any]:
    """The answer. Raises ConfigError, ConnectFailedError."""
    import http.client

    import msgspec

    from pyromq.metrics.settings import check_otlp_endpoint  # the same rules for a URL

    try:
        check_otlp_endpoint(url)
    except ConfigError:
        raise ConfigError(f"--url: {url!r} is not the URL of a server's metrics, such as {_DEFAULT_URL}") from None
    connection = _connection(url, timeout_s)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read(_BYTES_MAX)
    except (OSError, http.client.HTTPException) as error:
        text = f"{url} does not answer: {error}; is the server running, and is this what its ready line says?"
        raise ConnectFailedError(text) from error
    finally:
        connection.close()
    try:
        fields = msgspec.json.decode(body, type=dict[str, Any])
        if response.status in (200, 503) and {"status", "reasons", "warnings"} <= fields.keys():
            return fields
    except msgspec.DecodeError:
        pass
    raise ConnectFailedError(f"{url}{path} answers with status {response.status}, not as a server of PyroMQ does")


def _connection(url: str, timeout_s: int) -> HTTPConnection:
    import http.client
    import ssl
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    assert parts.hostname is not None
    if parts.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing secret is sent
        return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=timeout_s, context=context)
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
