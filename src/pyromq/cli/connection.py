"""What commands that talk to a cluster share: its name servers, names of topics and groups, and an admin client."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

from pyromq.cli.declared import Argument, Option
from pyromq.cli.output.tables import Column, Form, FormOption, Row, form_for, write_rows, write_structs
from pyromq.errors import NO_BROKER, ConnectFailedError, TopicNotFoundError

if TYPE_CHECKING:
    from pyromq.aio import Admin, Client

T = TypeVar("T")

NameServerOption = Annotated[
    str,
    Option(
        "--nameserver",
        "-n",
        envvar=["PYROMQ_NAMESERVER", "NAMESRV_ADDR"],
        metavar="HOST:PORT[;…]",
        help="Name servers of the cluster, or the URL of an address server.",
    ),
]
DEFAULT_NAMESERVER = "127.0.0.1:9876"
LeaseStoreOption = Annotated[
    str,
    Option(
        "--store",
        "-s",
        envvar="PYROMQ_LEASE_STORE",
        metavar="URL",
        help="Where leases are kept: etcd://HOST:PORT[,…], postgresql://USER@HOST/DATABASE or kubernetes:",
    ),
]
LeaseStoreCaOption = Annotated[
    Path | None,
    Option("--store-ca", envvar="PYROMQ_LEASE_STORE_CA", metavar="FILE", help="Authorities of an etcd with https."),
]
TopicArgument = Annotated[str, Argument(metavar="TOPIC", complete="topics")]
GroupArgument = Annotated[str, Argument(metavar="GROUP", complete="groups")]


def with_admin(nameserver: str, work: Callable[[Admin], Awaitable[T]]) -> T:
    """Open an admin client, do one thing with it, close it."""
    import asyncio

    from pyromq.aio import Admin

    async def run() -> T:
        async with Admin(nameserver) as admin, explained(admin.client):
            return await work(admin)

    return asyncio.run(run())


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFlags:
    """Options of a command that asks a cluster and writes what it answers."""

    nameserver: NameServerOption = DEFAULT_NAMESERVER
    output: FormOption = None

    @property
    def form(self) -> Form:
        return form_for(self.output, sys.stdout)

    def ask(self, work: Callable[[Admin], Awaitable[T]]) -> T:
        return with_admin(self.nameserver, work)

    def write_rows(self, columns: Sequence[Column], rows: Iterable[Row]) -> None:
        write_rows(sys.stdout, self.form, columns, rows)

    def write_structs(self, columns: Sequence[Column], structs: Iterable[Any]) -> None:
        write_structs(sys.stdout, self.form, columns, structs)


CLUSTER: Final = ClusterFlags()


def cluster_name(nameserver: str) -> str:
    """Where something is about to happen, for questions before it does."""
    return f"the cluster at {nameserver}"


@asynccontextmanager
async def explained(client: Client) -> AsyncIterator[None]:
    """Where no topic is found because no broker is there, that is said instead. Raises ConnectFailedError then."""
    try:
        yield
    except TopicNotFoundError as error:
        if not await client.nameservers.knows_no_broker(timeout_ms=client.settings.request_timeout_ms):
            raise
        raise ConnectFailedError(NO_BROKER) from error
