"""Mutual TLS: the common name in a client's certificate is the user, on both servers; nothing else is believed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pyromq.aio import Admin, Producer
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.broker import Broker
from pyromq.errors import MQError, NoPermissionError
from pyromq.model.message import Message
from pyromq.nameserver.server import NameServer
from pyromq.nameserver.settings import NameServerSettings
from pyromq.net.settings import TlsMode
from pyromq.security.secret import Secret
from pyromq.security.settings import CERTIFICATE, SIGNATURE, AccessSettings
from pyromq.settings import Credentials, TlsSettings
from pyromq.testing.loopback import SMALL_FILES
from tests.integration.certificates import Certificate, make_certificate
from tests.integration.guarded import CANARY, ROOT
from tests.unit.security.people import secret_of

pytestmark = pytest.mark.integration


class Cluster:
    """Certificates of a server, of the users root and alice, and of a stranger that no server trusts."""

    def __init__(self, folder: Path) -> None:
        self.server = make_certificate(folder, "broker-a")
        self.root = make_certificate(folder, "root", "root.example")
        self.alice = make_certificate(folder, "alice", "alice.example")
        self.stranger = make_certificate(folder, "stranger", "stranger.example")
        self.trusted = folder / "trusted.pem"
        known = (self.server, self.root, self.alice)
        self.trusted.write_text("".join(each.file.read_text() for each in known))
        self.nameserver = ""

    def tls(self, own: Certificate | None) -> TlsSettings:
        files: dict[str, Any] = {"certificate_file": own.file, "key_file": own.key} if own else {}
        return TlsSettings(ca_file=self.server.file, **files)

    @asynccontextmanager
    async def running(self, folder: Path, *validators: str) -> AsyncIterator[None]:
        """The broker is a client of the name server: by its certificate it is the user broker-a."""
        access = AccessSettings(
            enabled=True,
            initial_user=Secret(f'{{"username":"root","password":"{CANARY}"}}'),
            inner_credentials=Secret(f'{{"accessKey":"broker-a","secretKey":"inner-{CANARY}"}}'),
            validators=validators,
        )
        tls: dict[str, Any] = {
            **{"tls_mode": TlsMode.ENFORCING, "tls_certificate_file": self.server.file, "access": access, "port": 0},
            **{"tls_key_file": self.server.key, "tls_client_ca_file": self.trusted},
        }
        async with NameServer(NameServerSettings(**tls)) as names:
            self.nameserver = str(names.address)
            trusts = {"nameserver_tls": True, "nameserver_tls_ca_file": self.server.file}
            settings = BrokerSettings(store=SMALL_FILES, nameservers=(self.nameserver,), **tls, **trusts)  # type: ignore[arg-type]
            async with Broker(settings, folder / "data"):
                yield


async def send(cluster: Cluster, own: Certificate | None, credentials: Credentials | None = None) -> None:
    tls = cluster.tls(own)
    async with Producer(cluster.nameserver, group="g", tls=tls, credentials=credentials, retries=0) as producer:
        await producer.send(Message("orders", b"1"), timeout_ms=5_000)


async def test_the_subject_of_a_certificate_is_the_user(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    async with cluster.running(tmp_path, CERTIFICATE):
        async with Admin(cluster.nameserver, tls=cluster.tls(cluster.root)) as admin:
            await admin.topics.create("orders", queues=1)
            await admin.access.create_user("alice", secret_of("alice"))
        with pytest.raises(NoPermissionError, match="User:alice"):
            await send(cluster, cluster.alice)
        with pytest.raises(NoPermissionError, match="User:alice"):
            await send(cluster, cluster.alice, ROOT)  # a signature of another is no door
        async with Admin(cluster.nameserver, tls=cluster.tls(cluster.root)) as admin:
            await admin.access.apply_template("alice", "producer", topics=["orders"])
        await send(cluster, cluster.alice)
        for other in (None, cluster.stranger):
            with pytest.raises(MQError):
                await send(cluster, other, ROOT)
        with pytest.raises(NoPermissionError):
            async with Admin(cluster.nameserver, tls=cluster.tls(cluster.alice)) as admin:
                await admin.topics.create("more", queues=1)


async def test_certificate_and_signature_must_name_the_same_user(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    async with cluster.running(tmp_path, CERTIFICATE, SIGNATURE):
        async with Admin(cluster.nameserver, tls=cluster.tls(cluster.root), credentials=ROOT) as admin:
            await admin.topics.create("orders", queues=1)
            await admin.access.create_user("alice", secret_of("alice"))
            await admin.access.apply_template("alice", "producer", topics=["orders"])
        alice = Credentials("alice", secret_of("alice"))
        await send(cluster, cluster.alice, alice)
        for own, credentials in ((cluster.alice, ROOT), (cluster.root, alice), (cluster.alice, None)):
            with pytest.raises(NoPermissionError):
                await send(cluster, own, credentials)
