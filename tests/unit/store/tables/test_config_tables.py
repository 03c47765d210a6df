from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from pyromq.errors import CorruptFileError
from pyromq.model.topic import DataVersion, GroupConfig, Perm, TopicConfig, TopicFilterType
from pyromq.store.files.disk import RealDisk
from pyromq.store.files.whole_file import WholeFile
from pyromq.store.tables.config_table import ConfigTable
from pyromq.store.tables.groups import GroupTable
from pyromq.store.tables.offsets import DelayOffsets, OffsetTable
from pyromq.store.tables.topics import TopicTable
from pyromq.testing import FaultyDisk
from pyromq.wire.json.registration import decode_topic_table, encode_topic_table

ROOT = Path("/store")
NOW_MS = 1_700_000_000_000
VERSION = '"dataVersion":{\n\t\t"counter":7,\n\t\t"stateVersion":0,\n\t\t"timestamp":1700000000000\n\t}'
TABLES: list[type[ConfigTable]] = [TopicTable, GroupTable, OffsetTable, DelayOffsets]

TOPICS_BY_ROCKETMQ = """{
	"dataVersion":{
		"counter":7,
		"stateVersion":0,
		"timestamp":1700000000000
	},
	"topicConfigTable":{
		"orders":{
			"attributes":{
				"message.type":"FIFO"
			},
			"liteBindTopic":"later",
			"order":true,
			"perm":4,
			"readQueueNums":4,
			"topicFilterType":"MULTI_TAG",
			"topicName":"orders",
			"topicSysFlag":2,
			"unit":false,
			"writeQueueNums":8
		},
		"%RETRY%g1":{
			"perm":6,
			"readQueueNums":1,
			"topicName":"%RETRY%g1",
			"writeQueueNums":1
		}
	}
}"""
OFFSETS_BY_ROCKETMQ = """{
	"dataVersion":{"counter":2,"stateVersion":0,"timestamp":1700000000000},
	"groupTopicMap":{"g1":["orders"]},
	"offsetTable":{
		"orders@g1":{0:120,1:98
		},
		"%RETRY%g1@g1":{0:3
		},
		"orders@g1@broadcast":{"2":"5"}
	},
	"pullOffsetTable":{"orders@g1":{0:1}}
}"""
GROUPS_BY_ROCKETMQ = """{
	"dataVersion":{"counter":1,"stateVersion":3,"timestamp":1700000000000},
	"forbiddenTable":{"g1":{"orders":4}},
	"subscriptionGroupTable":{
		"g1":{
			"attributes":{},"brokerId":0,"consumeBroadcastEnable":false,"consumeEnable":true,"consumeFromMinEnable":true,
			"consumeMessageOrderly":false,"consumeTimeoutMinute":15,"groupName":"g1",
			"groupRetryPolicy":{"exponentialRetryPolicy":{"initial":5000,"max":7200000,"multiplier":2},"type":"EXPONENTIAL"},
			"groupSysFlag":0,"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":3,"retryQueueNums":1,
			"subscriptionDataSet":[{"expression":"*","expressionType":"TAG","topic":"orders","version":1}],
			"someDayMore":{"deep":[1,{"er":null}]},"whichBrokerWhenConsumeSlowly":1
		}
	}
}"""
DELAYS_BY_ROCKETMQ = (
    '{"dataVersion":{"counter":5,"stateVersion":0,"timestamp":1700000000000},"offsetTable":{1:10,3:44\n\t}\n}'
)
BY_ROCKETMQ: list[tuple[type[ConfigTable], str]] = [
    (TopicTable, TOPICS_BY_ROCKETMQ),
    (OffsetTable, OFFSETS_BY_ROCKETMQ),
    (GroupTable, GROUPS_BY_ROCKETMQ),
    (DelayOffsets, DELAYS_BY_ROCKETMQ),
]


def path_of(table: type[ConfigTable]) -> Path:
    return ROOT / "config" / table.file_name


def disk_with(table: type[ConfigTable], text: str) -> FaultyDisk:
    disk = FaultyDisk()
    disk.write(path_of(table), text.encode())
    return disk


def filled(disk: FaultyDisk, table: type[ConfigTable]) -> Any:
    loaded: Any = table.load(disk, ROOT)
    if isinstance(loaded, TopicTable):
        loaded.put(TopicConfig(topic_name="orders", attributes={"message.type": "FIFO"}), NOW_MS)
    elif isinstance(loaded, GroupTable):
        loaded.put(GroupConfig(group_name="g1", retry_max_times=3), NOW_MS)
        loaded.forbid("g1", "orders", Perm.READ, NOW_MS)
    elif isinstance(loaded, OffsetTable):
        loaded.put("orders", "g1", 0, 120)
        loaded.put("orders", "g1@broadcast", 1, 1 << 62)
        loaded.bump(NOW_MS)
    else:
        loaded.put(3, 44)
    return loaded


def content(table: Any) -> tuple[DataVersion, dict[Any, Any]]:
    return table.version, dict(table.items())


# --- what RocketMQ wrote --------------------------------------------------------------------------------------------


def test_topics_of_rocketmq_are_read_and_unknown_fields_passed_over() -> None:
    table = TopicTable.load(disk_with(TopicTable, TOPICS_BY_ROCKETMQ), ROOT)
    assert table.version == DataVersion(counter=7, timestamp=NOW_MS)
    assert table.get("orders") == TopicConfig(
        topic_name="orders",
        read_queue_nums=4,
        write_queue_nums=8,
        perm=Perm.READ,
        topic_filter_type=TopicFilterType.MULTI_TAG,
        topic_sys_flag=2,
        order=True,
        attributes={"message.type": "FIFO"},
    )
    assert table.get("%RETRY%g1") == TopicConfig(topic_name="%RETRY%g1", read_queue_nums=1, write_queue_nums=1)
    assert len(table) == 2


def test_offsets_of_rocketmq_are_read_with_bare_and_quoted_queue_ids() -> None:
    table = OffsetTable.load(disk_with(OffsetTable, OFFSETS_BY_ROCKETMQ), ROOT)
    assert dict(table.items()) == {
        ("orders", "g1"): {0: 120, 1: 98},
        ("%RETRY%g1", "g1"): {0: 3},
        ("orders", "g1@broadcast"): {2: 5},
    }
    assert table.get("orders", "g1", 1) == 98
    assert table.get("orders", "g1", 2) is None
    assert table.get("orders", "g2", 0) is None


def test_groups_of_rocketmq_are_read_with_what_they_must_not_read() -> None:
    table = GroupTable.load(disk_with(GroupTable, GROUPS_BY_ROCKETMQ), ROOT)
    group = table.get("g1")
    assert group is not None
    assert (group.consume_broadcast_enable, group.retry_max_times) == (False, 3)
    assert group.group_retry_policy["type"] == "EXPONENTIAL"
    assert group.subscription_data_set == [
        {"expression": "*", "expressionType": "TAG", "topic": "orders", "version": 1}
    ]
    assert table.forbidden("g1", "orders") == Perm.READ
    assert table.forbidden("g1", "other") == table.forbidden("g2", "orders") == 0
    assert table.version.state_version == 3


def test_delay_offsets_of_rocketmq_are_read_also_without_a_version() -> None:
    table = DelayOffsets.load(disk_with(DelayOffsets, DELAYS_BY_ROCKETMQ), ROOT)
    assert dict(table.items()) == {1: 10, 3: 44}
    of_4_x = DelayOffsets.load(disk_with(DelayOffsets, '{"offsetTable":{1:10}}'), ROOT)
    assert content(of_4_x) == (DataVersion(), {1: 10})


@pytest.mark.parametrize(("table", "text"), BY_ROCKETMQ)
def test_what_rocketmq_wrote_is_the_same_after_load_save_load(table: type[ConfigTable], text: str) -> None:
    disk = disk_with(table, text)
    loaded = table.load(disk, ROOT)
    loaded.save()
    assert content(table.load(disk, ROOT)) == content(loaded)
    again = table.load(disk, ROOT)
    assert again.text() == loaded.text()


def test_a_key_without_topic_or_group_is_dropped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        table = OffsetTable.load(
            disk_with(OffsetTable, '{"offsetTable":{"x":{0:1},"@g":{0:1},"t@":{},"t@g":{0:7}}}'), ROOT
        )
    assert dict(table.items()) == {("t", "g"): {0: 7}}
    assert len(caplog.records) == 3


# --- what we write --------------------------------------------------------------------------------------------------


def test_topics_are_written_as_rocketmq_writes_them_with_a_checksum_at_the_end() -> None:
    disk = FaultyDisk()
    table = TopicTable.load(disk, ROOT)
    table.version = DataVersion(counter=6)
    table.put(TopicConfig(topic_name="orders", read_queue_nums=4, write_queue_nums=4), NOW_MS)
    table.save()
    expected = (
        f'{{\n\t{VERSION},\n\t"topicConfigTable":{{\n\t\t"orders":{{\n\t\t\t"attributes":{{}},\n\t\t\t"order":false,\n'
        '\t\t\t"perm":6,\n\t\t\t"readQueueNums":4,\n\t\t\t"topicFilterType":"SINGLE_TAG",\n\t\t\t"topicName":"orders",\n'
        '\t\t\t"topicSysFlag":0,\n\t\t\t"writeQueueNums":4\n\t\t}\n\t}'
    )
    text = disk.read(path_of(TopicTable)).decode()
    assert text.startswith(expected + ',"crc32":"')
    assert table.text().decode() == expected + "\n}"


def test_offsets_are_written_with_bare_queue_ids_and_groups_joined_to_topics() -> None:
    disk = FaultyDisk()
    filled(disk, OffsetTable).save()
    text = disk.read(path_of(OffsetTable)).decode()
    assert '"offsetTable":{\n\t\t"orders@g1":{\n\t\t\t0:120\n\t\t},\n\t\t"orders@g1@broadcast":{\n\t\t\t1:46116' in text
    assert "groupTopicMap" not in text


def test_a_snapshot_of_the_topics_is_what_a_broker_registers() -> None:
    table = filled(FaultyDisk(), TopicTable)
    snapshot = table.snapshot()
    table.remove("orders", NOW_MS)
    assert decode_topic_table(encode_topic_table(snapshot)) == snapshot
    assert "orders" in snapshot.topic_config_table


@pytest.mark.parametrize("table", TABLES)
def test_a_saved_table_loads_the_same(table: type[ConfigTable]) -> None:
    disk = FaultyDisk()
    saved = filled(disk, table)
    saved.save()
    assert content(table.load(disk, ROOT)) == content(saved)
    assert content(table.load(disk.after_crash(), ROOT)) == content(saved)


@pytest.mark.parametrize("table", TABLES)
def test_an_empty_table_is_saved_and_loaded_too(table: type[ConfigTable], tmp_path: Path) -> None:
    empty = table.load(RealDisk(), tmp_path)
    empty.save()
    assert content(table.load(RealDisk(), tmp_path)) == (DataVersion(), {})


@pytest.mark.parametrize("table", TABLES)
def test_nothing_is_on_disk_before_save(table: type[ConfigTable]) -> None:
    disk = FaultyDisk()
    filled(disk, table)
    assert disk.files() == []


def test_prohibitions_are_saved_and_lifted() -> None:
    disk = FaultyDisk()
    table = filled(disk, GroupTable)
    table.save()
    loaded = GroupTable.load(disk, ROOT)
    assert loaded.forbidden("g1", "orders") == Perm.READ
    loaded.forbid("g1", "orders", 0, NOW_MS)
    assert loaded.forbidden("g1", "orders") == 0
    assert '"forbiddenTable":{}' in loaded.text().decode()


# --- changes and versions -------------------------------------------------------------------------------------------


def test_every_change_of_topics_and_groups_moves_the_version() -> None:
    topics = TopicTable.load(FaultyDisk(), ROOT)
    topics.put(TopicConfig(topic_name="t"), NOW_MS)
    assert topics.version == DataVersion(counter=1, timestamp=NOW_MS)
    assert topics.remove("t", NOW_MS + 1) == TopicConfig(topic_name="t")
    assert topics.remove("t", NOW_MS + 2) is None
    assert topics.version == DataVersion(counter=2, timestamp=NOW_MS + 1)
    groups = GroupTable.load(FaultyDisk(), ROOT)
    groups.put(GroupConfig(group_name="g"), NOW_MS)
    groups.forbid("g", "t", Perm.READ, NOW_MS)
    assert groups.version.counter == 2
    assert groups.remove("g", NOW_MS) == GroupConfig(group_name="g")
    assert groups.forbidden("g", "t") == 0
    assert groups.remove("g", NOW_MS) is None
    assert groups.version.counter == 3


def test_offsets_move_without_a_new_version_until_it_is_bumped() -> None:
    table = filled(FaultyDisk(), OffsetTable)
    before = table.version
    table.put("orders", "g1", 0, 121)
    assert table.version == before
    table.bump(NOW_MS + 5)
    assert table.version == DataVersion(counter=before.counter + 1, timestamp=NOW_MS + 5)
    assert table.remove("orders", "g1") == {0: 121}
    assert table.remove("orders", "g1") == {}
    delays = filled(FaultyDisk(), DelayOffsets)
    assert delays.remove(3) == 44
    assert delays.remove(3) is delays.get(3) is None


# --- damage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", TABLES)
def test_a_damaged_first_copy_is_passed_over_and_two_are_an_error(table: type[ConfigTable]) -> None:
    disk = FaultyDisk()
    saved = filled(disk, table)
    saved.save()
    disk.flip_bit(path_of(table), 8 * 40)
    assert content(table.load(disk, ROOT)) == content(saved)
    disk.flip_bit(path_of(table).with_name(table.file_name + ".bak"), 8 * 40)
    with pytest.raises(CorruptFileError):
        table.load(disk, ROOT)


@pytest.mark.parametrize("text", ["{", "[]", "5", '{"dataVersion":5}', '{"offsetTable":{"t@g":{"x":1}}}', "\0" * 20])
def test_a_text_that_is_no_table_is_an_error_and_not_an_empty_table(text: str) -> None:
    with pytest.raises(CorruptFileError):
        OffsetTable.load(disk_with(OffsetTable, text), ROOT)


@pytest.mark.parametrize("table", TABLES)
def test_flipped_bits_never_change_what_is_loaded(table: type[ConfigTable]) -> None:
    disk = FaultyDisk()
    saved = filled(disk, table)
    saved.save()
    expected = content(saved)
    damaged = 0
    for bit in range(8 * disk.size_of(path_of(table))):
        disk.flip_bit(path_of(table), bit)
        assert content(table.load(disk, ROOT)) == expected, bit
        disk.flip_bit(path_of(table), bit)
        damaged += 1
    assert damaged > 8 * 80


def test_a_table_can_be_made_without_looking_at_the_disk() -> None:
    table = TopicTable(WholeFile(FaultyDisk(), path_of(TopicTable)))
    assert content(table) == (DataVersion(), {})


def test_the_version_of_a_new_table_has_the_time_it_was_made() -> None:
    disk = FaultyDisk()
    assert OffsetTable.load(disk, ROOT, 1_234).version == DataVersion(timestamp=1_234)
    table = OffsetTable.load(disk, ROOT, 1_234)
    table.bump(5_678)
    table.save()
    assert OffsetTable.load(disk, ROOT, 9_999).version == DataVersion(counter=1, timestamp=5_678)
