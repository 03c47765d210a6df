"""TLS options of commands that talk to a cluster: given before the noun, handed to the client in the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

from pyromq.cli.declared import Option

TlsOption = Annotated[
    bool | None,
    Option("--tls/--no-tls", help="Use TLS to name servers and brokers.", show_default="PYROMQ_TLS"),
]
TlsCaOption = Annotated[
    Path | None,
    Option("--tls-ca", metavar="FILE", help="Trust the certificates in this file.", show_default="PYROMQ_TLS_CA"),
]
TlsCertificateOption = Annotated[
    Path | None,
    Option(
        "--tls-certificate", metavar="FILE", help="Certificate of this client.", show_default="PYROMQ_TLS_CERTIFICATE"
    ),
]
TlsKeyOption = Annotated[
    Path | None,
    Option("--tls-key", metavar="FILE", help="Private key of that certificate.", show_default="PYROMQ_TLS_KEY"),
]


def put_into_environment(given: Mapping[str, bool | Path | None]) -> Callable[[], None]:
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


def _text(value: bool | Path) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
