"""The first bytes that a server gets: who the peer really is, and whether it wants TLS. No I/O.

    [PROXY protocol header]  [TLS record 0x16 … | frame 0x00 …]

    version 1   PROXY TCP4 192.0.2.1 198.51.100.2 54321 10911 CR LF           at most 107 bytes
    version 2   signature (12)  0x2 | command  family | protocol  length (2)  addresses, then TLVs, which are skipped

A frame begins with the high byte of its length, which is 0 for all that we accept, so the first byte decides. The bytes
behind the preamble belong to another reader (a TLS engine perhaps): the preamble is shown bytes that are still in the
socket, and says how many of them to take out.
"""

from __future__ import annotations

import ipaddress
from struct import Struct
from typing import Final

from pyromq.errors import RemoteProtocolError
from pyromq.net.address import Address

SIGNATURE: Final = b"\r\n\r\n\x00\r\nQUIT\n"
PREFIX: Final = b"PROXY "
LINE_BYTES_MAX: Final = 107
PEEK_BYTES: Final = 4_096
_TLS_RECORD: Final = 0x16
_FIXED: Final = Struct(">12sBBH")  # of version 2
_IPV4: Final = Struct(">4s4sHH")
_IPV6: Final = Struct(">16s16sHH")
_SOURCES: Final = {0x11: _IPV4, 0x21: _IPV6}  # family and protocol: TCP over IPv4, over IPv6
_SOURCELESS: Final = {0x00, 0x31}  # unspecified, Unix stream: accepted, the socket's own address stays


class PreambleError(RemoteProtocolError):
    """The first bytes of a connection announce the PROXY protocol and then break it."""


class Preamble:
    """Show it what the socket holds until ``is_done``; then ``is_tls`` and ``source`` are known."""

    def __init__(self, *, proxy_protocol: bool) -> None:
        self.is_done = False
        self.is_tls = False
        self.source: Address | None = None  # the real peer, if a proxy reported it
        self._expects_proxy = proxy_protocol
        self._header = bytearray()

    def take(self, peeked: bytes) -> int:
        """How many of these bytes to remove; at least one, or ``is_done`` is true afterwards. Raises PreambleError.

        ``peeked`` is what lies in the socket at the moment, at least one byte.
        """
        first = self._header[0] if self._header else peeked[0]
        if self._expects_proxy and first == PREFIX[0]:
            return self._take_line(peeked)
        if self._expects_proxy and first == SIGNATURE[0]:
            return self._take_binary(peeked)
        self.is_done, self.is_tls = True, first == _TLS_RECORD
        return 0

    def _take_line(self, peeked: bytes) -> int:
        line = bytes(self._header) + peeked[: LINE_BYTES_MAX - len(self._header)]
        if not line.startswith(PREFIX[: len(line)]):
            raise PreambleError("a connection begins with neither a frame nor a PROXY protocol header")
        end = line.find(b"\r\n")
        if end < 0 and len(line) >= LINE_BYTES_MAX:
            raise PreambleError(f"a PROXY protocol line does not end within {LINE_BYTES_MAX} bytes")
        if end < 0:
            return self._keep(line)
        taken = end + 2 - len(self._header)
        self._finish(_source_of_line(line[:end]))
        return taken

    def _take_binary(self, peeked: bytes) -> int:
        header = bytes(self._header) + peeked
        if not header.startswith(SIGNATURE[: len(header)]):
            raise PreambleError("a connection begins with neither a frame nor a PROXY protocol header")
        needed = _FIXED.size
        if len(header) >= needed:
            needed += _FIXED.unpack_from(header)[3]
        if len(header) < needed:
            return self._keep(header)
        taken = needed - len(self._header)
        self._finish(_source_of_binary(header[:needed]))
        return taken

    def _keep(self, header: bytes) -> int:
        taken = len(header) - len(self._header)
        self._header[:] = header
        return taken

    def _finish(self, source: Address | None) -> None:
        self.source, self._expects_proxy = source, False
        self._header.clear()


def _source_of_line(line: bytes) -> Address | None:
    words = line.split(b" ")
    if words[1] == b"UNKNOWN":
        return None
    version = {b"TCP4": 4, b"TCP6": 6}.get(words[1])
    if version is None or len(words) != 6:
        raise PreambleError(f"a PROXY protocol line cannot be understood: {line!r}")
    _, _, source, destination, source_port, destination_port = words
    _port(destination_port, line)
    _host(destination, version, line)
    return Address(_host(source, version, line), _port(source_port, line))


def _host(word: bytes, version: int, line: bytes) -> str:
    try:
        host = ipaddress.ip_address(word.decode("ascii"))
    except ValueError as error:
        raise PreambleError(f"a PROXY protocol line lacks a valid IP address: {line!r}") from error
    if host.version != version:
        raise PreambleError(f"a PROXY protocol line has addresses of another family than it names: {line!r}")
    return str(host)


def _port(word: bytes, line: bytes) -> int:
    if not word.isdigit() or len(word) > 5 or int(word) > 0xFFFF:
        raise PreambleError(f"a PROXY protocol line lacks a valid port: {line!r}")
    return int(word)


def _source_of_binary(header: bytes) -> Address | None:
    _, version_and_command, family, length = _FIXED.unpack_from(header)
    if version_and_command >> 4 != 2 or version_and_command & 0xF > 1:
        raise PreambleError(f"a PROXY protocol header has the unknown version and command {version_and_command:#x}")
    if version_and_command & 0xF == 0 or family in _SOURCELESS:  # command LOCAL: the proxy speaks for itself
        return None
    layout = _SOURCES.get(family)
    if layout is None:
        raise PreambleError(f"a PROXY protocol header has the unknown address family {family:#x}")
    if length < layout.size:
        raise PreambleError(f"a PROXY protocol header has {length} bytes of addresses, {layout.size} are needed")
    source, _, port, _ = layout.unpack_from(header, _FIXED.size)
    return Address(str(ipaddress.ip_address(source)), port)
