"""TLS of the commands that talk to a cluster: options before the noun, which the clients find in the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer

TlsOption = Annotated[
    bool | None,
    typer.Option("--tls/--no-tls", help="TLS to name servers and brokers.", show_default="PYROMQ_TLS"),
]
TlsCaOption = Annotated[
    Path | None,
    typer.Option("--tls-ca", metavar="FILE", help="Trust these certificates.", show_default="PYROMQ_TLS_CA"),
]
TlsCertificateOption = Annotated[
    Path | None,
    typer.Option("--tls-certificate", metavar="FILE", help="Ours.", show_default="PYROMQ_TLS_CERTIFICATE"),
]
TlsKeyOption = Annotated[
    Path | None, typer.Option("--tls-key", metavar="FILE", help="Key of ours.", show_default="PYROMQ_TLS_KEY")
]


def put_into_environment(given: Mapping[str, bool | Path | None]) -> Callable[[], None]:
    """Variables for options that were given; returns what puts the environment back as it was."""
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


def _text(value: bool | Path) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
