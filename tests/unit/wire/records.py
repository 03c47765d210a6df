"""Records of every kind, for property tests: what any client may send, stored by a broker of either address family."""

from __future__ import annotations

from hypothesis import strategies as st

from pyromq.wire.record import Draft, encode_record

I32 = st.integers(min_value=-(1 << 31), max_value=(1 << 31) - 1)
I64 = st.integers(min_value=-(1 << 63), max_value=(1 << 63) - 1)
POSITIONS = st.integers(min_value=0, max_value=1 << 62)
hosts = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
# A text that ends in zeros, or in something like a checksum, is closed or changed on purpose (``plain_properties``).
properties = st.dictionaries(st.binary(min_size=1, max_size=6), st.binary(min_size=1, max_size=12), max_size=4).map(
    lambda items: b"".join(
        name.replace(b"\1", b".").replace(b"\2", b".") + b"\1" + value.replace(b"\1", b".").replace(b"\2", b".") + b"\2"
        for name, value in items.items()
    )
)
drafts = st.builds(
    Draft,
    topic=st.text("abc%_-", min_size=1, max_size=255),
    queue_id=I32,
    body=st.binary(max_size=300),
    properties=properties,
    flag=I32,
    sys_flag=st.integers(min_value=0, max_value=0x7FF).map(lambda flag: flag & ~0x30),
    born_ms=I64,
    born_host=hosts,
    delivery_attempt=I32,
    prepared_position=I64,
)


def stored(draft: Draft, position: int = 0, *, store_host: bytes = bytes(8), checksum: bool = True) -> bytes:
    return encode_record(
        draft, offset=41, position=position, stored_ms=1_700_000_000_001, store_host=store_host, checksum=checksum
    )
