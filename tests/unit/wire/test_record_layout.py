"""The named places of fields against ``FIXED``, which packs them, with hosts of either kind."""

from __future__ import annotations

import pytest

from pyromq.wire import record_layout as layout

VALUES = {
    "SIZE_AT": 0x11223344,
    "MAGIC_AT": layout.MAGIC_V1,
    "BODY_CRC_AT": 0x12345678,
    "QUEUE_ID_AT": 7,
    "FLAG_AT": -3,
    "OFFSET_AT": 1 << 40,
    "POSITION_AT": 1 << 50,
    "SYS_FLAG_AT": 0x30,
    "BORN_MS_AT": 1_700_000_000_000,
    "BORN_HOST_AT": b"born",
    "STORED_MS_AT": 1_700_000_000_001,
    "STORE_HOST_AT": b"store",
    "ATTEMPT_AT": 5,
    "PREPARED_POSITION_AT": 1 << 33,
    "BODY_SIZE_AT": 99,
}
WIDTHS = {"OFFSET_AT": 8, "POSITION_AT": 8, "BORN_MS_AT": 8, "STORED_MS_AT": 8, "PREPARED_POSITION_AT": 8}
BEHIND_BORN_HOST = list(VALUES)[list(VALUES).index("STORED_MS_AT") :]
BEHIND_STORE_HOST = list(VALUES)[list(VALUES).index("ATTEMPT_AT") :]


@pytest.mark.parametrize("kind", range(4))
def test_every_field_lies_where_its_name_says(kind: int) -> None:
    packed = layout.FIXED[kind].pack(*VALUES.values())
    for name, value in VALUES.items():
        at = getattr(layout, name)
        at += layout.V6_MORE_BYTES if kind & 1 and name in BEHIND_BORN_HOST else 0
        at += layout.V6_MORE_BYTES if kind & 2 and name in BEHIND_STORE_HOST else 0
        if isinstance(value, bytes):
            assert packed[at : at + len(value)] == value
        else:
            width = WIDTHS.get(name, 4)
            assert int.from_bytes(packed[at : at + width], "big", signed=value < 0) == value
    assert len(packed) == layout.BODY_AT + layout.V6_MORE_BYTES * kind.bit_count()


def test_single_bytes_and_sizes_follow_from_the_fields() -> None:
    packed = layout.FIXED[3].pack(*VALUES.values())
    assert packed[layout.MAGIC_LOW_AT] == layout.MAGIC_V1_LOW != layout.MAGIC_V2 & 0xFF
    assert packed[layout.HOST_BITS_AT] & layout.ANY_V6 == layout.BORN_V6 | layout.STORE_V6 == 0x30
    assert layout.RECORD_OVERHEAD_BYTES == layout.BODY_AT + 1 + 2  # length of a topic, length of properties
    assert layout.CHECKSUM_BYTES == len(layout.CHECKSUM_NAME) + 10 + 1
    assert layout.PREFIX.size == layout.BLANK_BYTES == layout.BODY_CRC_AT
