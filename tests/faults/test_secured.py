"""Secured members are that: who has neither certificates nor a name gets nothing, and the others work as ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.aio import Admin, Message, MQError, Producer
from pyromq.replication.settings import Role
from pyromq.results import SendStatus
from pyromq.settings import ClientSettings, Credentials, TlsSettings
from tests.faults.agents import ManagedCluster, Pace
from tests.faults.cluster import REPLICATION, running_cluster
from tests.faults.lease_servers import LEASE_SERVERS, is_installed
from tests.faults.secured import secured, secured_members

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("quiet")]


async def test_three_secured_members_serve_their_user_and_nobody_else(tmp_path: Path) -> None:
    store = next((each for each in ("etcd", "PostgreSQL") if is_installed(each)), None)
    if store is None:
        pytest.skip("neither etcd nor PostgreSQL is installed: secured members were not tried")
    with LEASE_SERVERS[store](tmp_path) as leases, secured(tmp_path / "certificates") as security:
        members = secured_members(tmp_path / "members", leases, security, Pace(4.0, REPLICATION, 1_000))
        cluster = ManagedCluster(members, Role.SYNC_MASTER, leases)
        async with running_cluster(cluster, security.nameserver()):
            async with Admin(cluster.nameserver) as admin, Producer(cluster.nameserver, group="shop") as producer:
                await admin.topics.create("orders", queues=1)
                assert (await producer.send(Message("orders", b"42"))).status is SendStatus.SEND_OK
            await cluster.switch_to(cluster.followers[0])
            async with Producer(cluster.nameserver, group="shop") as producer:
                assert (await producer.send(Message("orders", b"43"))).status is SendStatus.SEND_OK
            trusted = TlsSettings(ca_file=security.authority)
            for settings in (
                ClientSettings(nameservers=cluster.nameserver, tls=False, request_timeout_ms=1_000),
                ClientSettings(
                    nameservers=cluster.nameserver, tls=trusted, credentials=Credentials("rounds", "guessed")
                ),
            ):
                with pytest.raises(MQError):
                    async with Admin(client_settings=settings) as admin:
                        await admin.topics.stats("orders")
