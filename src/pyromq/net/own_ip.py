"""Which address this machine has."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final

_ELSEWHERE: Final = "192.0.2.1"  # reserved for examples (RFC 5737): no packet is sent, only the route is looked up


def own_ip(hosts: Sequence[str] = ()) -> str:
    """The address of this machine on the way to one of the hosts, or to the rest of the world; names are not used."""
    literal = [host for host in hosts if is_ip(host)]
    for host in (*literal, _ELSEWHERE):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((host, 9))
                return str(probe.getsockname()[0])
        except OSError:
            continue
    return "127.0.0.1"


def is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
