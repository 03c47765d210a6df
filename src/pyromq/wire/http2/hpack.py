"""HPACK, the receiving side: header blocks become lists of names and values (RFC 7541).

    1xxxxxxx            a field of the table, static or dynamic
    01xxxxxx name value a field that is put into the dynamic table; its name may be that of a field of the table
    001xxxxx            the dynamic table gets another size; only at the beginning of a block
    000?xxxx name value a field that no table remembers

Numbers fill the free bits, then bytes of seven bits, the lowest first. Texts have a length, whose highest bit says that
they are written in the Huffman code of RFC 7541: each byte of it moves a state, and what it emits is worked out
once. The same in the compiled core is ``core/src/hpack.rs``.
"""

from __future__ import annotations

from typing import Final

from pyromq.errors import RemoteProtocolError

TABLE_BYTES_MAX: Final = 4_096  # the default of HTTP/2, which is what we ask for
FIELD_BYTES: Final = 32  # that each field costs beside its name and value
_NUMBER_BYTES_MAX: Final = 4  # behind the first; no length or index needs more

_NAMES: Final = (
    ":authority :method=GET :method=POST :path=/ :path=/index.html :scheme=http :scheme=https :status=200 :status=204 "
    ":status=206 :status=304 :status=400 :status=404 :status=500 accept-charset accept-encoding=gzip,~deflate "
    "accept-language accept-ranges accept access-control-allow-origin age allow authorization cache-control "
    "content-disposition content-encoding content-language content-length content-location content-range content-type "
    "cookie date etag expect expires from host if-match if-modified-since if-none-match if-range if-unmodified-since "
    "last-modified link location max-forwards proxy-authenticate proxy-authorization range referer refresh retry-after "
    "server set-cookie strict-transport-security transfer-encoding user-agent vary via www-authenticate"
)
Pair = tuple[bytes, bytes]


def _static(text: str) -> Pair:
    name, _, value = text.replace("~", " ").partition("=")
    return name.encode(), value.encode()


STATIC: Final[tuple[Pair, ...]] = tuple(map(_static, _NAMES.split()))
_DYNAMIC_AT: Final = len(STATIC) + 1  # where the newest field of the dynamic table stands
_BEHIND: Final = _DYNAMIC_AT - 1  # minus an index: the place of a field, counted from the end of the list


class HpackError(RemoteProtocolError):
    """A block that cannot be decoded; the tables of both sides differ from here on."""


class HeaderListTooLargeError(HpackError):
    """A header list of more bytes than are allowed."""


class HpackDecoder:
    """Decodes the blocks of one connection, in their order."""

    def __init__(self, list_bytes_max: int) -> None:
        self.list_bytes = 0  # of the last list, as RFC 9113 counts them
        self._list_bytes_max = list_bytes_max
        self._fields: list[Pair] = []  # of the dynamic table, the newest last
        self._bytes = 0
        self._bytes_max = TABLE_BYTES_MAX

    def decode(self, block: bytes) -> list[Pair]:
        """Names and values of a block. Raises HpackError."""
        try:
            return self._decode(block)
        except IndexError as error:
            raise HpackError("a header block is cut, or has a field that is not in the tables") from error

    def _decode(self, block: bytes) -> list[Pair]:
        found: list[Pair] = []
        at, end, left, fields = 0, len(block), self._list_bytes_max, self._fields
        while at < end:
            byte = block[at]
            at += 1
            if byte & 0x80:
                index = byte & 0x7F
                if index == 0x7F:
                    index, at = _number(block, at, index)
                pair = fields[_BEHIND - index] if index >= _DYNAMIC_AT else self._field(index)
            elif byte & 0x60 == 0x20:
                at = self._resize(block, at, byte, is_first=not found)
                continue
            else:
                mask = 0x3F if byte & 0x40 else 0x0F
                index = byte & mask
                if index == mask:
                    index, at = _number(block, at, index)
                if index:
                    name = (fields[_BEHIND - index] if index >= _DYNAMIC_AT else self._field(index))[0]
                else:
                    name, at = _text(block, at, end)
                value, at = _text(block, at, end)
                pair = (name, value)
                if byte & 0x40:
                    self._add(pair)
            left -= len(pair[0]) + len(pair[1]) + FIELD_BYTES
            if left < 0:
                raise HeaderListTooLargeError(f"a header list of more than {self._list_bytes_max} bytes")
            found.append(pair)
        self.list_bytes = self._list_bytes_max - left
        return found

    @staticmethod
    def _field(index: int) -> Pair:
        """Field of the static table. Raises HpackError."""
        if not index:
            raise HpackError("there is no field 0 in the tables")
        return STATIC[index - 1]

    def _add(self, pair: Pair) -> None:
        self._bytes += len(pair[0]) + len(pair[1]) + FIELD_BYTES
        self._fields.append(pair)
        if self._bytes > self._bytes_max:
            self._shrink()

    def _shrink(self) -> None:
        """The oldest fields go; one that is larger than the table leaves it empty."""
        count, fields = 0, self._fields
        while self._bytes > self._bytes_max:
            name, value = fields[count]
            self._bytes -= len(name) + len(value) + FIELD_BYTES
            count += 1
        del fields[:count]

    def _resize(self, block: bytes, at: int, byte: int, *, is_first: bool) -> int:
        size = byte & 0x1F
        if size == 0x1F:
            size, at = _number(block, at, size)
        if not is_first:
            raise HpackError("the table changes its size in the middle of a block")
        if size > TABLE_BYTES_MAX:
            raise HpackError(f"a table of {size} bytes, at most {TABLE_BYTES_MAX} are allowed")
        self._bytes_max = size
        self._shrink()
        return at


def _number(block: bytes, at: int, start: int) -> tuple[int, int]:
    """The number that goes on there, and where the next byte is. Raises HpackError, IndexError."""
    shift = 0
    for number in range(_NUMBER_BYTES_MAX):
        byte = block[at + number]
        start += (byte & 0x7F) << shift
        if byte < 0x80:
            return start, at + number + 1
        shift += 7
    raise HpackError("a number of a header block is too large")


def _text(block: bytes, at: int, end: int) -> tuple[bytes, int]:
    """The text that begins there, and where it ends. Raises HpackError, IndexError."""
    size = block[at]
    is_coded = size & 0x80
    size &= 0x7F
    at += 1
    if size == 0x7F:
        size, at = _number(block, at, size)
    stop = at + size
    if stop > end:
        raise HpackError("a header block is cut")
    text = block[at:stop]
    return (decode_huffman(text) if is_coded else text), stop


# --- the Huffman code ---

_BY_LENGTH: Final = (
    (5, "303132616365696f7374"),
    (6, "20252d2e2f333435363738393d415f62646667686c6d6e707275"),
    (7, "3a42434445464748494a4b4c4d4e4f5051525354555657596a6b71767778797a"),
    (8, "262a2c3b585a"),
    (10, "212228293f"),
    (11, "272b7c"),
    (12, "233e"),
    (13, "0024405b5d7e"),
    (14, "5e7d"),
    (15, "3c607b"),
    (19, "5cc3d0"),
    (20, "808283a2b8c2e0e2"),
    (21, "99a1a7acb0b1b3d1d8d9e3e5e6"),
    (22, "8184858688929a9ca0a3a4a9aaadb2b5b9babbbdbec4c6e4e8e9"),
    (23, "0187898a8b8c8d8f93959697989b9d9ea5a6a8aeafb4b6b7bcbfc5e7ef"),
    (24, "098e9091949fabced7e1eced"),
    (25, "c7cfeaeb"),
    (26, "c0c1c8c9cacdd2d5dadbeef0f2f3ff"),
    (27, "cbccd3d4d6dddedff1f4f5f6f7f8fafbfcfdfe"),
    (28, "020304050607080b0c0e0f1011121314151718191a1b1c1d1e1f7fdcf9"),
    (30, "0a0d16"),
)
"""Bytes by the length of their codes: a code is the one before plus one, filled up with zeros. The very last, thirty
ones, is the end of the text, and no byte.
"""

_PAD_BITS_MAX: Final = 7


def _tree() -> list[list[int | bytes]]:
    """By state and bit: the next state, or the byte that ends here."""
    nodes: list[list[int | bytes]] = [[0, 0]]
    code = last = 0
    for length, text in _BY_LENGTH:
        for symbol in bytes.fromhex(text):
            code <<= length - last
            last, state = length, 0
            for shift in range(length - 1, 0, -1):
                bit = code >> shift & 1
                if not nodes[state][bit]:
                    nodes[state][bit] = len(nodes)
                    nodes.append([0, 0])
                state = nodes[state][bit]  # type: ignore[assignment]  # codes do not begin with codes
            nodes[state][code & 1] = bytes((symbol,))
            code += 1
    return nodes


_NODES: Final = _tree()
_ENDS: Final[set[int]] = set()
"""States in which a text may end: nothing but ones has come since its last byte, and fewer than eight."""


def _find_ends() -> None:
    state = 0
    for _ in range(_PAD_BITS_MAX + 1):
        _ENDS.add(state)
        state = _NODES[state][1]  # type: ignore[assignment]


_find_ends()
_moves: dict[int, tuple[int, bytes]] = {}  # by state << 8 | byte; at most 256 × 256


def _move(key: int) -> tuple[int, bytes]:
    """Where a byte leads from a state, and what it emits. Raises HpackError."""
    state, emitted = key >> 8, b""
    for shift in range(7, -1, -1):
        following = _NODES[state][key >> shift & 1]
        if isinstance(following, bytes):
            emitted += following
            state = 0
        elif not following:
            raise HpackError("a text in Huffman's code has its end in the middle")
        else:
            state = following
    _moves[key] = state << 8, emitted
    return _moves[key]


def decode_huffman(data: bytes) -> bytes:
    """The text. Raises HpackError."""
    state, parts, known = 0, [], _moves.get
    for byte in data:
        move = known(state | byte)
        state, emitted = move if move is not None else _move(state | byte)
        parts.append(emitted)
    if state >> 8 not in _ENDS:
        raise HpackError("a text in Huffman's code is cut")
    return b"".join(parts)
