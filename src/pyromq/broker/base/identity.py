"""Where a broker listens, and under which address it is known: to clients as text, in records and ids as bytes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from ipaddress import IPv4Address, IPv6Address, ip_address
from os import getpid

from pyromq.broker.base.settings import VIP_PORT_DISTANCE, BrokerSettings
from pyromq.clock import Clock
from pyromq.errors import ConfigError
from pyromq.net.address import Address
from pyromq.net.nameserver_list import host_of
from pyromq.net.own_ip import is_ip, own_ip
from pyromq.wire.message_id import Host, UniqueIdGenerator


@dataclass(frozen=True, slots=True)
class Identity:
    """Fixed once the broker listens: the port is part of it."""

    address: Address  # what clients and name servers are given
    host: Host  # the same as records and message ids hold it

    def unique_keys(self, clock: Clock) -> Callable[[], str]:
        """Ids for messages whose senders gave them none."""
        generator = UniqueIdGenerator(self.host.ip, getpid())

        def new() -> str:
            now_ms = clock.now_ms()
            month = datetime.fromtimestamp(now_ms / 1000).astimezone().replace(day=1, hour=0, minute=0, second=0)
            return generator.next(now_ms, int(month.timestamp()) * 1000)

        return new


def advertised_host(settings: BrokerSettings) -> str:
    """What clients are given: never an address that means "all of this machine's"."""
    host = settings.advertised_host or settings.host
    if is_ip(host) and ip_address(host).is_unspecified:
        return own_ip([host_of(text) for text in settings.nameservers])
    return host


async def resolved(host: str) -> IPv4Address | IPv6Address:
    """A name as an address, as message ids need one. Raises ConfigError."""
    if is_ip(host):
        return ip_address(host)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # a name that cannot be resolved, or that is not one
        raise ConfigError(f"advertised host {host!r} has no address: {error}; set advertised_host") from error
    return ip_address(found[0][4][0])


def listened_on(settings: BrokerSettings) -> list[Address]:
    """Where it listens: its port, and the VIP port where there is one."""
    ports = [settings.port]
    if settings.vip_port and settings.port > VIP_PORT_DISTANCE:
        ports.append(settings.port - VIP_PORT_DISTANCE)
    return [Address(settings.host, port) for port in ports]
