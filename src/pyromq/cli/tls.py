"""TLS and credentials of commands that talk to a cluster: given before the noun, handed to the client in the
environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import typer

TlsOption = Annotated[
    bool | None,
    typer.Option("--tls/--no-tls", help="Use TLS to name servers and brokers.", show_default="PYROMQ_TLS"),
]
TlsCaOption = Annotated[
    Path | None,
    typer.Option("--tls-ca", metavar="FILE", help="Trust the certificates in this file.", show_default="PYROMQ_TLS_CA"),
]
TlsCertificateOption = Annotated[
    Path | None,
    typer.Option(
        "--tls-certificate", metavar="FILE", help="Certificate of this client.", show_default="PYROMQ_TLS_CERTIFICATE"
    ),
]
TlsKeyOption = Annotated[
    Path | None,
    typer.Option("--tls-key", metavar="FILE", help="Private key of that certificate.", show_default="PYROMQ_TLS_KEY"),
]

AccessKeyOption = Annotated[
    str | None,
    typer.Option("--access-key", metavar="USER", help="Sign requests as this user.", show_default="PYROMQ_ACCESS_KEY"),
]
SecretKeyOption = Annotated[
    str | None,
    typer.Option(
        "--secret-key",
        metavar="SECRET",
        help="Its password; other users of this machine may see it here, a file or the environment keeps it.",
        show_default="PYROMQ_SECRET_KEY",
    ),
]
SecretKeyFileOption = Annotated[
    Path | None,
    typer.Option(
        "--secret-key-file",
        metavar="FILE",
        help="A file whose first line is the password.",
        show_default="PYROMQ_SECRET_KEY_FILE",
    ),
]


def put_into_environment(given: Mapping[str, bool | Path | str | None]) -> Callable[[], None]:
    """Sets the variables of options that were given; returns the function that restores the environment."""
    variables = {name: _text(value) for name, value in given.items() if value is not None}
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)

    def restore() -> None:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    return restore


def _text(value: bool | Path | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionOptions:
    """How a command reaches a cluster that asks for certificates or signatures."""

    tls: TlsOption = None
    tls_ca: TlsCaOption = None
    tls_certificate: TlsCertificateOption = None
    tls_key: TlsKeyOption = None
    access_key: AccessKeyOption = None
    secret_key: SecretKeyOption = None
    secret_key_file: SecretKeyFileOption = None

    def variables(self) -> dict[str, bool | Path | str | None]:
        given = {f"PYROMQ_{each.name.upper()}": getattr(self, each.name) for each in fields(self)}
        if self.secret_key_file is not None and self.secret_key is None:
            given["PYROMQ_SECRET_KEY"] = ""  # what the environment has is somebody else's
        return given
