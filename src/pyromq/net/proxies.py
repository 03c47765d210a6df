"""Whose PROXY protocol header is believed: a header says who a peer is, so only known proxies may send one."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from pyromq.errors import ConfigError


class TrustedProxies:
    """Addresses and networks, ``10.0.0.7`` or ``10.0.0.0/24``. Raises ConfigError for anything else."""

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = [_network(text) for text in networks]

    def __contains__(self, host: str) -> bool:
        if not self._networks:
            return False
        address = _address(host)
        return any(address in network for network in self._networks)


NO_PROXIES: Final = TrustedProxies(())


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text.strip())
    except ValueError as error:
        raise ConfigError(f"{text!r} is not an address or network; write 10.0.0.7 or 10.0.0.0/24") from error


def _address(host: str) -> IPv4Address | IPv6Address:
    address = ip_address(host.partition("%")[0])  # an IPv6 address of one link has its interface behind a %
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
