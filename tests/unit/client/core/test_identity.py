"""Ids of clients and of messages."""

from __future__ import annotations

from datetime import datetime

from pyromq.client.core.identity import MessageIds, client_id, month_of
from pyromq.net.own_ip import own_ip


def test_a_client_id_names_address_instance_and_unit() -> None:
    assert client_id("10.0.0.1", "7#9") == "10.0.0.1@7#9"
    assert client_id("10.0.0.1", "7#9", "u") == "10.0.0.1@7#9@u"
    assert own_ip(["nowhere.example", "127.0.0.1"]) == "127.0.0.1"


def test_message_ids_are_distinct_and_restart_their_time_with_the_month() -> None:
    first = int(datetime(2026, 11, 1).astimezone().timestamp() * 1000)
    second = int(datetime(2026, 12, 1).astimezone().timestamp() * 1000)
    assert month_of(first) == month_of(second - 1) == (first, second)
    ids = MessageIds("10.0.0.1", 7, 0)
    made = [ids.next(second - 1), ids.next(second), ids.next(second + 5), ids.next(first)]
    assert len(set(made)) == 4
    assert [int(each[20:28], 16) for each in made] == [second - 1 - first, 0, 5, 0]
    assert made[0].startswith("0A000001" + "0007" + "00000000")
