"""Options of our client from what a Kombu connection says: users, TLS, virtual hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyromq.settings import ClientOptions, Credentials, TlsSettings


def client_options(client: Any) -> ClientOptions:
    """What a Kombu connection says about users, TLS and virtual hosts."""
    options: ClientOptions = {}
    if client.userid:
        options["credentials"] = Credentials(client.userid, client.password or "")
    if client.ssl:
        options["tls"] = tls_of(client.ssl)
    if (namespace := (client.virtual_host or "").strip("/")) != "":
        options["namespace"] = namespace
    return options


def tls_of(ssl: object) -> TlsSettings | bool:
    """``broker_use_ssl`` is True, or has the names of the ``ssl`` module."""
    if not isinstance(ssl, Mapping):
        return True
    return TlsSettings(ca_file=ssl.get("ca_certs"), certificate_file=ssl.get("certfile"), key_file=ssl.get("keyfile"))
