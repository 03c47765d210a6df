"""Layout of a record, stated once: where each field lies, and the numbers that mark it.

    byte   0      4      8     12     16    20      28        36    40      48    56      64     72       76        84
           total  magic  body  queue  flag  queue   position  sys   born    born  stored  store  attempt  prepared  body
           size          crc   id           offset            flag  time    host  time    host            position  size

    then   body · topic length (u8 in V1, i16 in V2) · topic · properties length (i16) · properties        big-endian

Hosts are 4 bytes of address and an i32 port; with IPv6 (announced by sysFlag bits 4 and 5) 16 bytes and a port, and
everything behind moves by 12. V2 is used only for topics longer than 127 bytes. A record never crosses a segment; the
rest of a full segment begins with a blank mark (i32 rest, magic BLANK).

The last property may be a checksum of everything before it, ``__CRC32#`` 0x01 ten digits 0x02: CRC-32 & 0x7FFFFFFF,
least significant digit first.

``record`` reads and writes whole records by this; ``fast``, the store, clients and the pipeline read and write parts
of them, each with the constants below.
"""

from __future__ import annotations

import struct
from typing import Final

from pyromq.model.property_names import CHECKSUM, ITEM_END
from pyromq.wire.flags import SysFlag
from pyromq.wire.property_text import item_key

# --- marks ---

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
MAGIC_BLANK: Final = 0xCBD43194
MAGIC_V1_LOW: Final = MAGIC_V1 & 0xFF  # the one byte that tells V1 from V2
BLANK_BYTES: Final = 8

# --- the fixed part, with IPv4 hosts ---

SIZE_AT: Final = 0
MAGIC_AT: Final = 4
BODY_CRC_AT: Final = 8
QUEUE_ID_AT: Final = 12
FLAG_AT: Final = 16
OFFSET_AT: Final = 20
POSITION_AT: Final = 28
SYS_FLAG_AT: Final = 36
BORN_MS_AT: Final = 40
BORN_HOST_AT: Final = 48
STORED_MS_AT: Final = 56
STORE_HOST_AT: Final = 64
ATTEMPT_AT: Final = 72
PREPARED_POSITION_AT: Final = 76
BODY_SIZE_AT: Final = 84
BODY_AT: Final = 88
MAGIC_LOW_AT: Final = MAGIC_AT + 3
HOST_BITS_AT: Final = SYS_FLAG_AT + 3  # the byte of sysFlag with the bits that announce IPv6

HOST_V4_BYTES: Final = 8
HOST_V6_BYTES: Final = 20
V6_MORE_BYTES: Final = HOST_V6_BYTES - HOST_V4_BYTES
BORN_V6: Final = int(SysFlag.BORN_HOST_V6)  # plain ints: IntFlag arithmetic is too slow for every message
STORE_V6: Final = int(SysFlag.STORE_HOST_V6)
ANY_V6: Final = BORN_V6 | STORE_V6

BODY_CRC_AND_BORN_MS: Final = struct.Struct(
    f">{BODY_CRC_AT}xI{BORN_MS_AT - BODY_CRC_AT - 4}xq"
)  # from a record's start
PREFIX: Final = struct.Struct(">II")  # size and magic: of a record, and of a blank mark
# The fixed part up to the body, by ``sys_flag >> 4 & 3`` (bit 0 born host, bit 1 store host is IPv6).
FIXED: Final = tuple(
    struct.Struct(f">IIIiiqqiq{born}sq{store}siqi")
    for born, store in (
        (HOST_V4_BYTES, HOST_V4_BYTES),
        (HOST_V6_BYTES, HOST_V4_BYTES),
        (HOST_V4_BYTES, HOST_V6_BYTES),
        (HOST_V6_BYTES, HOST_V6_BYTES),
    )
)
FIXED_BYTES: Final = tuple(each.size for each in FIXED)

# --- limits and checksums ---

TOPIC_V1_BYTES_MAX: Final = 127
TOPIC_BYTES_MAX: Final = 255
RECORD_OVERHEAD_BYTES: Final = 91  # V1, both hosts IPv4: the fixed part and both lengths
CHECKSUM_BYTES: Final = 20
CHECKSUM_NAME: Final = item_key(CHECKSUM).encode()
CHECKSUM_END: Final = ITEM_END.encode()
CHECKSUM_BACKWARDS: Final = CHECKSUM_END + b"%010d" + CHECKSUM_NAME[::-1]
