"""Addresses that a rule is about.

    ACL 2.0   10.0.0.7   10.0.0.0/8   2001:db8::/32
    4.x       *   10.1.*.*   10.1.2-5.7   10.1.2.{3,4}   10.1.2.3,10.1.2.4   (white lists of plain_acl.yml)

An IPv4 address that came through an IPv6 socket counts as what it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from pyromq.errors import ConfigError, quoted

IpAddress = IPv4Address | IPv6Address
Test = Callable[[IpAddress], bool]

_braces = re.compile(r"\{([^{}]*)\}").search
_PARTS: Final = 4
_RANGE_MAX: Final = 255


class SourceRanges:
    """Addresses and networks; none at all means every address."""

    __slots__ = ("_networks", "texts")

    def __init__(self, texts: Sequence[str] = ()) -> None:
        """Parse address ranges (CIDR). Raises ConfigError."""
        self.texts = tuple(text.strip() for text in texts)
        self._networks = [_network(text) for text in self.texts]

    def __contains__(self, ip: str) -> bool:
        if not self._networks:
            return True
        address = parsed_ip(ip)
        return address is not None and any(address in network for network in self._networks)

    def __repr__(self) -> str:
        return f"SourceRanges({list(self.texts)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SourceRanges) and self.texts == other.texts

    def __hash__(self) -> int:
        return hash(self.texts)


class WhiteList:
    """Address patterns of RocketMQ 4.x; none at all means no address."""

    __slots__ = ("_tests", "texts")

    def __init__(self, texts: Sequence[str] = ()) -> None:
        """Parse RocketMQ 4.x's address patterns. Raises ConfigError."""
        self.texts = tuple(text.strip() for text in texts if text.strip())
        self._tests = [test for text in self.texts for test in _white_tests(text)]

    def __bool__(self) -> bool:
        return bool(self._tests)

    def __contains__(self, ip: str) -> bool:
        address = parsed_ip(ip) if self._tests else None
        return address is not None and any(test(address) for test in self._tests)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WhiteList) and self.texts == other.texts

    def __hash__(self) -> int:
        return hash(self.texts)


_IP_CHARACTERS_MAX: Final = 128  # the longest is IPv6 with the name of an interface


def parsed_ip(text: str) -> IpAddress | None:
    """None for what is not an address; any text may be asked about."""
    return _parsed_ip(text) if len(text) <= _IP_CHARACTERS_MAX else None


@lru_cache(maxsize=10_000)
def _parsed_ip(text: str) -> IpAddress | None:
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _network(text: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text, strict=False)
    except ValueError as error:
        raise ConfigError(f"{quoted(text)} is neither an address nor a network such as 10.0.0.0/8") from error


def _white_tests(text: str) -> list[Test]:
    """One text may list several addresses."""
    if found := _braces(text):
        texts = [text[: found.start()] + part.strip() + text[found.end() :] for part in found[1].split(",")]
    else:
        texts = [part.strip() for part in text.split(",")]
    return [_white_test(each) for each in texts]


def _white_test(text: str) -> Test:
    if text in ("*", "*.*.*.*", "*:*:*:*:*:*:*:*"):
        return lambda _: True
    if "/" in text or (parsed_ip(text) is not None):
        network = _network(text)
        return lambda address: address in network
    parts = text.split(".")
    if len(parts) != _PARTS:
        raise _not_a_pattern(text)
    spans = [_span(part, text) for part in parts]

    def test(address: IpAddress) -> bool:
        return isinstance(address, IPv4Address) and all(
            low <= number <= high for number, (low, high) in zip(address.packed, spans, strict=True)
        )

    return test


def _span(part: str, text: str) -> tuple[int, int]:
    if part == "*":
        return 0, _RANGE_MAX
    low, dash, high = part.partition("-")
    if not low.isdigit() or not (high.isdigit() if dash else not high):
        raise _not_a_pattern(text)
    span = int(low), int(high or low)
    if not 0 <= span[0] <= span[1] <= _RANGE_MAX:
        raise _not_a_pattern(text)
    return span


def _not_a_pattern(text: str) -> ConfigError:
    examples = "10.1.2.3, 10.1.*.*, 10.1.2-5.7 or 10.1.2.{3,4}"
    return ConfigError(f"{quoted(text)} is not an address pattern such as {examples}")
