"""Properties of rows as text."""

from __future__ import annotations

import pyarrow as pa

from tests.unit.pipeline.sink.packing import joining, packed, packer, rows_of


def test_properties_come_from_columns_and_rocketmqs_own_are_left_out() -> None:
    raw = "UNIQ_KEY\x01old\x02shop\x01north\x02TAGS\x01old\x02CLUSTER\x01c\x02x\x01y"
    batch = pa.record_batch({"body": ["é"], "keys": [["a", "b"]], "tags": ["new"], "properties": [raw]})
    [(body, properties)] = rows_of(packed(packer(), batch))
    assert rows_of(packed(joining(), batch)) == [(body, properties)]
    assert body.decode() == "é"
    key = properties.pop("UNIQ_KEY")
    assert key != "old" and properties == {"TAGS": "new", "KEYS": "a b", "shop": "north", "x": "y"}
    maps = pa.array([[("shop", "north"), ("KEYS", "old"), ("empty", "")]], pa.map_(pa.string(), pa.string()))
    [(_, properties)] = rows_of(packed(packer(), pa.record_batch([pa.array([b"x"]), maps], ["body", "properties"])))
    assert set(properties) == {"UNIQ_KEY", "shop"}
