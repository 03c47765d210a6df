"""Stored records at random, as odd as clients make them, and damaged: two readers must find the same in them."""

from __future__ import annotations

from random import Random

from pyromq.wire.compression import compress, compressed_flag
from pyromq.wire.flags import SysFlag
from pyromq.wire.record import Draft, encode_record

V4, OTHER_V4, V6 = b"\x0a\0\0\1\0\0\x2a\x9f", b"\xc0\xa8\x01\xff\xff\xff\xff\xfe", bytes(range(16)) + b"\0\0\x2a\x9f"
NAMES = (
    b"TAGS",
    b"KEYS",
    b"UNIQ_KEY",
    b"DELAY",
    b"a",
    b"XTAGS",
    "größe".encode(),
    b"__CRC32#",
    b"TAGS ",
    b"",
    b"k" * 40,
)
VALUES = (
    *(b"red", b"green", b"a  b", 'ä😀"\\'.encode(), b"\n\t\r\x1f\x7f", b"0123456789", b"", b"3", b"x" * 300),
    *(b"\xff\xfe", b"\xed\xa0\x80", b"half \xc3"),  # no UTF-8, half of a surrogate pair, cut
)
_ALGORITHMS = (SysFlag.ZLIB, SysFlag.LZ4, SysFlag.ZSTD)


def odd_properties(rng: Random, oddness: float) -> bytes:
    """Regular ones with ``oddness`` 0."""
    if rng.random() >= oddness:
        return b"".join(
            b"%b\x01%b\x02" % (name, value)
            for name, value in (
                (b"UNIQ_KEY", b"%032X" % rng.getrandbits(128)),
                (b"TAGS", rng.choice((b"red", b"green", "grün".encode()))),
                (b"KEYS", rng.choice((b"order-42", b"a b", b"\xc3\xa4"))),
                (b"n%d" % rng.randrange(3), rng.choice(VALUES[:4])),
            )
            if rng.random() < 0.8
        )
    items = [
        rng.choice((b"%b\x01%b", b"%b\x01%b", b"%b\x01%b", b"%b%b", b"%b\x01\x01%b", b"\x01%b%b"))
        % (rng.choice(NAMES), rng.choice(VALUES))
        for _ in range(rng.choice((0, 1, 2, 4, 90)))
    ]
    return b"\x02".join(items) + rng.choice((b"\x02", b"\x02", b"", b"\x02\x02", b"\x02__CRC32#\x010123456789\x02"))


def odd_record(rng: Random, offset: int, oddness: float) -> bytes:
    body = rng.choice((b"", b"x", bytes(1024), rng.randbytes(rng.randrange(200))))
    sys_flag = 0
    if rng.random() < oddness / 3:
        algorithm = rng.choice(_ALGORITHMS)
        sys_flag = int(compressed_flag(0, algorithm))
        body = compress(body, algorithm) if rng.random() < 0.8 else body  # else what is no such thing
    draft = Draft(
        topic=rng.choice(("orders", "%RETRY%g", "t" * 127, "t" * 200)),
        queue_id=rng.choice((0, 3, -1)),
        body=body,
        properties=odd_properties(rng, oddness),
        flag=rng.choice((0, -1, 1 << 30)),
        sys_flag=sys_flag | rng.choice((0, 0, 4, 8)),
        born_ms=rng.choice((1_700_000_000_000, 0, -1, (1 << 63) - 1)),
        born_host=V6 if rng.random() < oddness / 5 else rng.choice((V4, V4, OTHER_V4)),
        delivery_attempt=rng.choice((0, 16)),
        prepared_position=rng.choice((0, 77)),
    )
    return encode_record(
        draft,
        offset=offset,
        position=rng.choice((offset * 1000, (1 << 62) + offset)),
        stored_ms=1_700_000_000_000 + offset,
        store_host=V6 if rng.random() < oddness / 5 else rng.choice((V4, V4, OTHER_V4)),
        checksum=rng.random() < 0.7,
    )


def odd_records(rng: Random) -> bytes:
    """A response: mostly whole, sometimes with bytes changed, cut out or doubled."""
    oddness = rng.choice((0, 0.2, 1))
    first = rng.choice((0, 7, (1 << 40)))
    data = b"".join(odd_record(rng, first + place, oddness) for place in range(rng.choice((0, 1, 2, 3, 9))))
    return damaged(rng, data) if rng.random() < 0.4 else data


def damaged(rng: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2))):
        if not changed:
            break
        at = rng.randrange(len(changed))
        match rng.randrange(5):
            case 0:
                changed[at] = rng.randrange(256)
            case 1:
                del changed[at : at + rng.choice((1, 4, 1 << 20))]
            case 2:
                changed[at:at] = changed[at : at + 5]
            case 3:  # lengths, magic and flags lie near the beginning
                changed[min(at % 96, len(changed) - 1)] ^= 1 << rng.randrange(8)
            case _:
                changed += bytes(rng.choice((1, 90, 91, 200)))
    return bytes(changed)
