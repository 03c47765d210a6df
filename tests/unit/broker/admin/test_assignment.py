from __future__ import annotations

from typing import Any

import pytest

from pyromq.broker.admin.assignment_requests import STRATEGIES, AssignmentHandler
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.state.members import Members
from pyromq.model.queue import QueueId
from pyromq.model.sharing import share_evenly, share_in_circle
from pyromq.store.tables.request_modes import RequestModeTable
from pyromq.testing import FaultyDisk, ManualClock
from pyromq.wire.json import bodies
from pyromq.wire.json.bodies import AssignmentRequest, RequestMode
from pyromq.wire.received import Received
from tests.unit.broker.builders import ROOT, Wire, heartbeat, tables

QUEUES = [QueueId("orders", "broker-a", number) for number in range(10)]


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("members", range(1, 13))
@pytest.mark.parametrize("count", [0, 1, 7, 10])
def test_every_queue_has_one_owner_and_shares_differ_by_one_at_most(name: str, members: int, count: int) -> None:
    shares = [STRATEGIES[name](QUEUES[:count], members, index) for index in range(members)]
    assert sorted(queue for share in shares for queue in share) == QUEUES[:count]
    sizes = sorted(map(len, shares))
    assert sizes[-1] - sizes[0] <= 1


def test_blocks_and_circles() -> None:
    assert [queue.number for queue in share_evenly(QUEUES, 3, 0)] == [0, 1, 2, 3]
    assert [queue.number for queue in share_evenly(QUEUES, 3, 1)] == [4, 5, 6]
    assert [queue.number for queue in share_in_circle(QUEUES, 3, 1)] == [1, 4, 7]


def test_members_with_rare_characters_stand_in_the_order_in_which_java_sorts_them() -> None:
    """Else a broker of ours and one of Apache would give one queue to two members."""
    beyond_16_bits, private_use = "\N{GRINNING FACE}", "\ue000"
    settings, clients = BrokerSettings(), Members[Any](ManualClock())
    for client_id in (private_use, beyond_16_bits):
        clients.heard_from(client_id, heartbeat(client_id, "orders"), "JAVA", 450)
    known = tables(members=clients)
    known.topics.create("orders", queues=2)
    handler = AssignmentHandler(known, RequestModeTable.load(FaultyDisk(), ROOT), settings, None)
    wire = Wire()
    asked = AssignmentRequest(topic="orders", consumer_group="readers", client_id=beyond_16_bits, strategy_name="AVG")
    handler.assign(wire.as_connection, Received(code=400, header=None, body=bodies.encode(asked)))
    (response,) = wire.responses
    (share,) = bodies.decode(response.body, bodies.AssignmentResponse).message_queue_assignments
    assert share.message_queue.number == 0


def test_modes_are_read_as_rocketmq_wrote_them() -> None:
    disk = FaultyDisk()
    text = b'{"messageRequestModeMap":{"orders":{"g1":{"topic":"orders","consumerGroup":"g1","mode":"POP"}}}}'
    disk.write(ROOT / "config" / "messageRequestMode.json", text)
    table = RequestModeTable.load(disk, ROOT)
    assert table.get("orders", "g1") == RequestMode(topic="orders", consumer_group="g1", mode="POP")
    assert table.get("orders", "g2") is None and len(table) == 1
    table.put(RequestMode(topic="orders", consumer_group="g2", pop_share_queue_num=-1))
    table.save()
    again = RequestModeTable.load(disk.after_crash(), ROOT)
    assert len(again) == 2 and again.text() == table.text()


def popped(members: int, shared: int, client: int, queues: int = 6) -> list[tuple[int, str]]:
    settings, clients = BrokerSettings(), Members[Any](ManualClock())
    for number in range(members):
        clients.heard_from(f"c{number}", heartbeat(f"c{number}", "orders"), "JAVA", 450)
    known, modes = tables(members=clients), RequestModeTable.load(FaultyDisk(), ROOT)
    known.topics.create("orders", queues=queues)
    modes.put(RequestMode(topic="orders", consumer_group="readers", mode="POP", pop_share_queue_num=shared))
    wire = Wire()
    asked = AssignmentRequest(topic="orders", consumer_group="readers", client_id=f"c{client}", strategy_name="AVG")
    handler = AssignmentHandler(known, modes, settings, None)
    handler.assign(wire.as_connection, Received(code=400, header=None, body=bodies.encode(asked)))
    shares = bodies.decode(wire.responses[0].body, bodies.AssignmentResponse).message_queue_assignments
    return [(share.message_queue.number, share.mode) for share in shares]


@pytest.mark.parametrize("shared", [-1, 0, 2, 9])
def test_a_popping_group_shares_all_queues_of_a_broker_by_default(shared: int) -> None:
    assert popped(3, shared, 1) == [(-1, "POP")]


def test_a_popping_member_pops_its_own_queues_and_those_of_the_next_members() -> None:
    assert popped(3, 1, 0) == [(number, "POP") for number in (0, 1, 2, 3)]
    assert popped(3, 1, 2) == [(number, "POP") for number in (0, 1, 4, 5)]


def test_with_more_members_than_queues_nobody_goes_without() -> None:
    assert [popped(5, 1, client, queues=2) for client in range(5)] == [[(n % 2, "POP")] for n in range(5)]
