"""Properties that are no text: what is UTF-8 of them is kept, the rest is replaced, and no query fails."""

from __future__ import annotations

import numpy as np

from pyromq.pipeline.arrow.properties import Properties

GARBLED = b"KEYS\x01k1\x02shop\x01\xff\xfe\x02city\x01M\xc3\xbcnchen\x02"
HEALTHY = b"KEYS\x01k2\x02shop\x01north\x02"


def test_what_is_not_utf_8_is_replaced_in_its_own_row() -> None:
    data = HEALTHY + GARBLED + HEALTHY
    ends = np.cumsum([len(HEALTHY), len(GARBLED), len(HEALTHY)])
    starts = np.concatenate(([0], ends[:-1]))
    found = Properties(data, starts, ends)
    assert found.text().to_pylist()[1] == GARBLED.decode("utf-8", "replace")
    assert [dict(row) for row in found.maps().to_pylist()] == [
        {"KEYS": "k2", "shop": "north"},
        {"KEYS": "k1", "shop": "\ufffd\ufffd", "city": "München"},
        {"KEYS": "k2", "shop": "north"},
    ]
    assert found.values(b"KEYS").to_pylist() == ["k2", "k1", "k2"]
