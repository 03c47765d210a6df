from __future__ import annotations

from pathlib import Path

from pyromq.store.tables.filter_table import FilterData, FilterTable
from pyromq.testing import FaultyDisk
from pyromq.wire.json import java_json

ROOT = Path("/data")
FROM_ROCKETMQ = b"""{
\t"filterDataByTopic":{
\t\t"orders":{
\t\t\t"groupFilterData":{
\t\t\t\t"g1":{
\t\t\t\t\t"bloomFilterData":{"bitNum":112, "bitPos":[5,60,91]},
\t\t\t\t\t"bornTime":1700000000000,
\t\t\t\t\t"clientVersion":1700000000001,
\t\t\t\t\t"consumerGroup":"g1",
\t\t\t\t\t"dead":true,
\t\t\t\t\t"deadTime":1700000000002,
\t\t\t\t\t"expression":"a > 5 AND b = 'x'",
\t\t\t\t\t"expressionType":"SQL92",
\t\t\t\t\t"topic":"orders"
\t\t\t\t}
\t\t\t},
\t\t\t"topic":"orders"
\t\t}
\t}
}"""


def test_the_file_of_a_rocketmq_is_read() -> None:
    disk = FaultyDisk()
    disk.write(ROOT / "config/consumerFilter.json", FROM_ROCKETMQ)
    table = FilterTable.load(disk, ROOT)
    expected = FilterData(
        consumer_group="g1",
        topic="orders",
        expression="a > 5 AND b = 'x'",
        born_time=1_700_000_000_000,
        dead_time=1_700_000_000_002,
        client_version=1_700_000_000_001,
        dead=True,
    )
    assert list(table) == [expected] and table.get("orders", "g1") == expected and table.get("orders", "g2") is None


def test_what_is_saved_has_its_shape() -> None:
    disk = FaultyDisk()
    table = FilterTable.load(disk, ROOT)
    for topic, group in (("orders", "g1"), ("orders", "g2"), ("bills", "g1")):
        table.put(FilterData(consumer_group=group, topic=topic, expression="a = 1"))
    assert table.remove("orders", "g2") is not None and table.remove("orders", "g2") is None
    table.save()
    tree = java_json.parse(table.text())
    assert set(tree["filterDataByTopic"]) == {"orders", "bills"}
    one = tree["filterDataByTopic"]["orders"]
    assert one["topic"] == "orders" and set(one["groupFilterData"]) == {"g1"}
    assert one["groupFilterData"]["g1"] == {
        "bornTime": 0, "clientVersion": 0, "consumerGroup": "g1", "dead": False, "deadTime": 0,
        "expression": "a = 1", "expressionType": "SQL92", "topic": "orders",
    }  # fmt: skip
    assert sorted(FilterTable.load(disk, ROOT), key=lambda data: data.topic) == sorted(
        table, key=lambda data: data.topic
    )
