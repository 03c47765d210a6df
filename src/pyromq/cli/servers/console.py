"""``pyromq console``: the web console of a cluster."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pyromq.cli.connection import DEFAULT_NAMESERVER, NameServerOption
from pyromq.cli.declared import Option
from pyromq.cli.servers.commands import log_to_stderr
from pyromq.cli.servers.console_beside import missing_packages
from pyromq.cli.servers.options import LogFormat, LogFormatOption
from pyromq.errors import ConfigError

if TYPE_CHECKING:
    from pyromq.console.settings import ConsoleSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleFlags:
    """Where a console listens, and what it keeps."""

    host: Annotated[str, Option(help="Address to listen on.")] = "127.0.0.1"
    port: Annotated[
        int | None,
        Option(min=0, max=65_535, show_default="8082, or another where that is taken", help="0 picks a free one."),
    ] = None
    data: Annotated[
        Path | None, Option("--data", metavar="DIR", help="Folder that keeps hashed passwords and tokens.")
    ] = None
    store: Annotated[
        Path | None,
        Option(
            "--store", metavar="DIR", help="Show the store in this folder, which no broker needs to run; read-only."
        ),
    ] = None
    certificate: Annotated[Path | None, Option(metavar="FILE", help="Serve HTTPS with this certificate.")] = None
    key: Annotated[Path | None, Option(metavar="FILE", help="Private key of that certificate.")] = None
    allow_host: Annotated[
        list[str] | None, Option("--allow-host", metavar="NAME", help="Name that browsers may use; may be repeated.")
    ] = None
    behind_https: Annotated[bool, Option("--behind-https", help="A proxy in front of it speaks HTTPS.")] = False
    insecure_network: Annotated[
        bool, Option("--insecure-network", help="Listen beyond this machine without HTTPS: passwords travel readable.")
    ] = False


def console(
    *,
    nameserver: NameServerOption = DEFAULT_NAMESERVER,
    flags: ConsoleFlags,
    reset_password: Annotated[
        bool, Option("--reset-password", help="Make a new password for admin in --data, show it, and exit.")
    ] = False,
    beside_fd: Annotated[
        int | None,
        Option(
            "--beside-fd",
            metavar="NUMBER",
            help="Used by pyromq up: a socket that listens already; the console ends with its standard input.",
        ),
    ] = None,
    log: Annotated[
        str, Option("--log", metavar="LEVEL", help="Least level logged to stderr: debug, info, warning or error.")
    ] = "warning",
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Start the web console of a cluster: pages and an HTTP API.

    Passwords come from PYROMQ_CONSOLE_PASSWORD (admin) and PYROMQ_CONSOLE_VIEWER_PASSWORD (viewer, who only reads);
    without the first one a password is made and shown once. PYROMQ_CONSOLE_TOKEN is a token of the API.
    """
    log_to_stderr(log, log_format)
    _require_packages()
    settings = _settings(nameserver, flags)
    if reset_password:
        _reset_password(settings)
        return
    from pyromq.console.server import Starter, run_console

    starter = None if beside_fd is None else Starter(socket.socket(fileno=beside_fd))
    with ExitStack() as stack:
        if flags.store is not None:
            settings = _on_folder(settings, flags.store, stack)
        run_console(settings, out=_write_out, tell=_write_err, starter=starter)


def _on_folder(settings: ConsoleSettings, folder: Path, stack: ExitStack) -> ConsoleSettings:
    """Settings for a console of that folder, which is served as long as ``stack``. Raises StoreError."""
    from pyromq.cli.servers.store_folder import served_folder

    opened = stack.enter_context(served_folder(folder))
    if opened.is_in_use:
        _write_err(f"console: a process has {folder} open; what is shown is one moment of it\n")
    os.environ["PYROMQ_ACCESS_KEY"] = opened.credentials.access_key  # where clients of this process look
    os.environ["PYROMQ_SECRET_KEY"] = opened.credentials.secret_key
    label = f"{folder} · store folder, read-only"
    return replace(settings, nameservers=opened.nameserver, label=label, read_only=True)


def _require_packages() -> None:
    """Check that the extra of the console is installed. Raises ConfigError."""
    if missing := missing_packages():
        raise ConfigError(f"the console needs {', '.join(missing)}: pip install 'pyromq[console]'")


def _settings(nameserver: str, flags: ConsoleFlags) -> ConsoleSettings:
    from pyromq.console.settings import (
        PASSWORD_VARIABLE,
        TOKEN_VARIABLE,
        VIEWER_PASSWORD_VARIABLE,
        ConsoleSettings,
    )
    from pyromq.security.secret import Secret

    return ConsoleSettings(
        nameservers=nameserver,
        host=flags.host,
        port=flags.port,
        data=flags.data,
        certificate=flags.certificate,
        key=flags.key,
        allowed_hosts=tuple(flags.allow_host or ()),
        behind_https=flags.behind_https,
        insecure_network=flags.insecure_network,
        password=Secret(os.environ.get(PASSWORD_VARIABLE, "")),
        viewer_password=Secret(os.environ.get(VIEWER_PASSWORD_VARIABLE, "")),
        token=Secret(os.environ.get(TOKEN_VARIABLE, "")),
    )


def _reset_password(settings: ConsoleSettings) -> None:
    from pyromq.clock import SystemClock
    from pyromq.console.auth.accounts import ADMIN, Accounts

    if settings.data is None:
        raise ConfigError("without --data there is no password to change: start the console again for a new one")
    accounts = Accounts(settings, SystemClock())
    _write_out(f"{accounts.generated or accounts.renew(ADMIN)}\n")


def _write_out(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _write_err(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
