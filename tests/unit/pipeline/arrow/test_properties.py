"""Properties of many messages: checksums are none of them; what is no text is replaced, and no query fails."""

from __future__ import annotations

import numpy as np

from pyromq.pipeline.arrow.properties import Properties

GARBLED = b"KEYS\x01k1\x02shop\x01\xff\xfe\x02city\x01M\xc3\xbcnchen\x02"
HEALTHY = b"KEYS\x01k2\x02shop\x01north\x02"


def properties_of(*rows: bytes) -> Properties:
    ends = np.cumsum([len(row) for row in rows], dtype=np.int64)
    return Properties(b"".join(rows), ends - [len(row) for row in rows], ends)


def test_the_checksum_of_a_record_is_in_no_form_of_its_properties() -> None:
    checksum = b"__CRC32#\x010123456789\x02"
    others = [b"", HEALTHY, b"X" + checksum, b"a\x01b\x02__CRC32#x\x01123456789\x02"]
    found = properties_of(HEALTHY + checksum, checksum, *others, HEALTHY + checksum)
    texts = [HEALTHY, b"", *others, HEALTHY]
    assert found.text().to_pylist() == [text.decode() for text in texts]
    assert all("__CRC32#" not in dict(row) for row in found.maps().to_pylist())
    assert properties_of(checksum).text().to_pylist() == [""]
    assert properties_of(HEALTHY).text().to_pylist() == [HEALTHY.decode()]


def test_what_is_not_utf_8_is_replaced_in_its_own_row() -> None:
    found = properties_of(HEALTHY, GARBLED, HEALTHY)
    assert found.text().to_pylist()[1] == GARBLED.decode("utf-8", "replace")
    assert [dict(row) for row in found.maps().to_pylist()] == [
        {"KEYS": "k2", "shop": "north"},
        {"KEYS": "k1", "shop": "\ufffd\ufffd", "city": "München"},
        {"KEYS": "k2", "shop": "north"},
    ]
    assert found.values(b"KEYS").to_pylist() == ["k2", "k1", "k2"]
