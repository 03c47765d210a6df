"""Sockets around ``wire``: connections for servers and clients alike, responses matched to requests, lasting links.

    Server ──accept, preamble──▶ Connection ──▶ Handler.on_requests(connection, all requests of one read)
    Link ──open_connection─────▶ Connection ──▶ await request(...)

One ``Connection`` class serves both sides, because both may send requests. Everything here belongs to one
event loop and is not thread-safe.
"""

from pyromq.errors import TooManyRequestsError
from pyromq.net.address import Address
from pyromq.net.backoff import Backoff
from pyromq.net.client import open_connection
from pyromq.net.connection import Connection
from pyromq.net.handler import FastPath, Handler
from pyromq.net.link import Link
from pyromq.net.preamble import PreambleError
from pyromq.net.proxies import TrustedProxies
from pyromq.net.server import Server
from pyromq.net.settings import ConnectionSettings, TlsMode
from pyromq.net.tls import ServerTls, TlsSettings

__all__ = [
    "Address",
    "Backoff",
    "Connection",
    "ConnectionSettings",
    "FastPath",
    "Handler",
    "Link",
    "PreambleError",
    "Server",
    "ServerTls",
    "TlsMode",
    "TlsSettings",
    "TooManyRequestsError",
    "TrustedProxies",
    "open_connection",
]
