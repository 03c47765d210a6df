"""``pyromq context``: clusters by name, so that commands need not be informed where they are."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import click

from pyromq.cli import contexts as stored
from pyromq.cli.connection import DEFAULT_NAMESERVER
from pyromq.cli.declared import Argument, Commands, Option
from pyromq.cli.output.prompts import YesOption, confirm
from pyromq.cli.output.tables import Column, FormOption, form_for, write_fields, write_rows
from pyromq.cli.tls import ConnectionOptions
from pyromq.errors import ConfigError

app = Commands(help="Contexts: clusters by name, with their addresses, credentials and TLS.")

NameArgument = Annotated[str, Argument(metavar="NAME", complete="contexts")]
_COLUMNS = (
    Column("mark", "", whole=True),
    Column("name", "name", whole=True),
    Column("nameserver", "name servers"),
    Column("access_key", "user", optional=True),
    Column("secret", "password", optional=True),
    Column("tls", "TLS", show=lambda is_on: "yes" if is_on else "", optional=True),
)
_FIELDS = (
    Column("name", "context"),
    Column("nameserver", "name servers"),
    Column("access_key", "user"),
    Column("secret", "password"),
    Column("tls", "TLS", show=lambda is_on: "yes" if is_on else "no"),
    Column("tls_ca", "authority"),
    Column("tls_certificate", "certificate"),
    Column("tls_key", "key file"),
)


@app.command()
def add(
    *,
    name: NameArgument,
    nameserver: Annotated[
        str,
        Option("--nameserver", "-n", metavar="HOST:PORT[;…]", help="Name servers, or the URL of an address server."),
    ] = DEFAULT_NAMESERVER,
    connection: ConnectionOptions,
    use: Annotated[bool, Option("--use", help="Use it from now on.")] = False,
    replace: Annotated[bool, Option("--replace", help="Replace the context that has this name.")] = False,
) -> None:
    """Keep a cluster under a name. The first one is in use from then on.

    With --access-key the password comes from --secret-key-file (which is read each time), --secret-key, or a prompt.
    """
    context = stored.ClusterContext(
        nameserver=_checked(nameserver),
        access_key=connection.access_key or "",
        secret_key=_secret(connection),
        secret_key_file=_absolute(connection.secret_key_file),
        tls=connection.tls,
        tls_ca=_absolute(connection.tls_ca),
        tls_certificate=_absolute(connection.tls_certificate),
        tls_key=_absolute(connection.tls_key),
    )
    with stored.changing(_file()) as held:
        if name in held[0].by_name and not replace:
            raise ConfigError(f"there is a context {name} already: add --replace to change it")
        is_first = not held[0].by_name
        held[0] = held[0].with_context(name, context)
        if use or is_first:
            held[0] = held[0].using(name)
        is_used = held[0].current == name
    text = "is in use" if is_used else f"was added: pyromq context use {name}"
    click.echo(f"context {name} {text}", err=True)


@app.command()
def use(
    name: Annotated[str, Argument(metavar="NAME", complete="contexts", help="The context; - for none.")],
) -> None:
    """Use a context for all commands that say nothing else (--context, -n, PYROMQ_NAMESERVER)."""
    chosen = "" if name == "-" else name
    with stored.changing(_file()) as held:
        held[0] = held[0].using(chosen)
    click.echo(f"context {chosen} is in use" if chosen else "no context is in use", err=True)


@app.command("ls")
def list_contexts(output: FormOption = None) -> None:
    """List contexts; the one in use has a star. Passwords are never shown."""
    found = stored.read_contexts(_file())
    rows = [_row(name, found) for name in sorted(found.by_name)]
    write_rows(sys.stdout, form_for(output, sys.stdout), _COLUMNS, rows)
    if not rows:
        click.echo("there are no contexts: pyromq context add NAME -n HOST:PORT", err=True)


@app.command()
def show(
    name: Annotated[str, Argument(metavar="NAME", complete="contexts", help="By default the one in use.")] = "",
    output: FormOption = None,
) -> None:
    """Show a context. Its password is never shown, only whether it has one."""
    found = stored.read_contexts(_file())
    chosen = name or found.current
    if not chosen:
        raise ConfigError("no context is in use: give a name, or pyromq context use NAME")
    found.require(chosen)
    write_fields(sys.stdout, form_for(output, sys.stdout), _FIELDS, _row(chosen, found))


@app.command("rm")
def remove(name: NameArgument, yes: YesOption = False) -> None:
    """Forget a context. The cluster itself is not touched."""
    found = stored.read_contexts(_file())
    found.require(name)
    if name == found.current:
        click.echo(f"context {name} is the one in use", err=True)
    confirm(f"Forget context {name}?", yes)
    with stored.changing(_file()) as held:
        held[0] = held[0].without(name)
    click.echo(f"context {name} was removed", err=True)


def _file() -> Path:
    return stored.contexts_file(os.environ)


def _row(name: str, found: stored.Contexts) -> dict[str, Any]:
    context = found.by_name[name]
    return {
        "name": name,
        "mark": "*" if name == found.current else "",
        "in_use": name == found.current,
        "nameserver": context.nameserver,
        "access_key": context.access_key,
        "secret": context.secret_key_file or ("(kept)" if context.secret_key else ""),
        "tls": bool(context.tls or (context.tls is None and (context.tls_ca or context.tls_certificate))),
        "tls_ca": context.tls_ca,
        "tls_certificate": context.tls_certificate,
        "tls_key": context.tls_key,
    }


def _checked(nameserver: str) -> str:
    """Check addresses of name servers. Raises ConfigError."""
    from pyromq.client.core.settings import client_settings_of

    if not nameserver.strip(" ;,"):
        raise ConfigError("a context needs the address of a name server: -n HOST:PORT")
    client_settings_of(nameserver, None)
    return nameserver


def _secret(connection: ConnectionOptions) -> str:
    """Read the secret key that a context refers to. Raises ConfigError."""
    if not connection.access_key:
        if connection.secret_key is not None or connection.secret_key_file is not None:
            raise ConfigError("a password needs its user: give --access-key too")
        return ""
    if connection.secret_key is not None:
        return connection.secret_key
    if connection.secret_key_file is not None:
        return ""
    if not sys.stdin.isatty():
        raise ConfigError("--access-key needs a password: give --secret-key-file FILE")
    return str(click.prompt(f"Password of {connection.access_key}", hide_input=True, err=True))


def _absolute(path: Path | None) -> str:
    return str(path.expanduser().absolute()) if path is not None else ""
