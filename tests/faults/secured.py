"""Members, name server, agents and clients with TLS and access control, all of it enforced.

    certificates      an authority of this run; one server certificate for 127.0.0.1 and 127.0.0.2, which are proxies
    users             a super user, whom clients and agents sign as; inner credentials among servers

Clients and agents find both in the environment, as they do in production: nothing else about the rounds changes.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from pyromq.client.core.client import Client
from pyromq.nameserver.settings import NameServerSettings
from pyromq.net.settings import TlsMode
from pyromq.replication.settings import Role
from pyromq.security.certificates import CertificateFolder
from pyromq.settings import ClientSettings
from pyromq.wire.codes import RequestCode
from pyromq.wire.json import bodies, java_json
from tests.faults.agents import ManagedMember, Pace
from tests.faults.broker_worker import with_secrets
from tests.faults.cluster import CLIENTS_HOST
from tests.faults.lease_servers import LeaseServer

_USER: Final = "rounds"


@dataclass(frozen=True, slots=True)
class Security:
    """Certificates and secrets of one run; as texts, because secrets do not travel between processes."""

    certificate: Path
    key: Path
    authority: Path
    user: str
    inner: str
    environment: dict[str, str]  # where clients and agents find all of it

    @property
    def tls(self) -> dict[str, Any]:
        return {
            "tls_mode": TlsMode.ENFORCING,
            "tls_certificate_file": self.certificate,
            "tls_key_file": self.key,
        }

    @property
    def access(self) -> dict[str, str]:
        return {"initial_user": self.user, "inner_credentials": self.inner}

    def nameserver(self) -> NameServerSettings:
        return NameServerSettings(**with_secrets({"port": 0, "access": self.access, **self.tls}))


@contextmanager
def secured(folder: Path) -> Iterator[Security]:
    """New certificates and secrets; the environment of this process, and of those it starts, has them meanwhile."""
    made = CertificateFolder(folder)
    authority = made.make_authority()
    server = made.add_server(["127.0.0.1", CLIENTS_HOST])
    password, inner = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
    variables = {
        "PYROMQ_TLS_CA": str(authority.certificate),
        "PYROMQ_ACCESS_KEY": _USER,
        "PYROMQ_SECRET_KEY": password,
    }
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield Security(
            server.certificate,
            server.key,
            authority.certificate,
            msgspec.json.encode({"username": _USER, "password": password}).decode(),
            msgspec.json.encode({"accessKey": "pyromq-inner", "secretKey": inner}).decode(),
            variables,
        )
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


class SecuredMember(ManagedMember):
    """A machine that speaks TLS alone, and knows who asks."""

    def __init__(self, folder: Path, number: int, leases: LeaseServer, pace: Pace, security: Security) -> None:
        super().__init__(folder, number, leases, pace)
        self.security = security
        self.agent_environment = security.environment

    def settings(self, role: Role, broker_id: int) -> dict[str, Any]:
        found = super().settings(role, broker_id)
        security = self.security
        return {
            **found,
            **security.tls,
            "nameserver_tls": True,
            "nameserver_tls_ca_file": security.authority,
            "access": security.access,
        }

    async def facts(self) -> dict[str, str]:
        async with Client(ClientSettings()) as client:
            link = client.brokers.link(str(self.address))
            response = await client.ask(link, RequestCode.GET_BROKER_RUNTIME_INFO)
        return {key: str(value) for key, value in java_json.decode(response.body, bodies.KeyValues).table.items()}


def secured_members(
    folder: Path, leases: LeaseServer, security: Security, pace: Pace, count: int = 3
) -> list[ManagedMember]:
    folder.mkdir(parents=True, exist_ok=True)
    return [SecuredMember(folder, number, leases, pace, security) for number in range(count)]
