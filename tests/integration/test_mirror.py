"""A mirror between two clusters: nothing is lost or there twice, wherever it is killed; groups move without gap."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from pyromq import Admin, Message, Producer, PullConsumer
from pyromq.cli.main import main
from pyromq.client.core.client import Client
from pyromq.client.producer.outgoing import OutgoingMessage
from pyromq.client.producer.raw_send import send_raw
from pyromq.errors import GroupNotFoundError, TopicNotFoundError
from pyromq.model.names import retry_topic
from pyromq.model.queue import QueueId
from pyromq.net.link import Link
from pyromq.operate.admin import Admin as AsyncAdmin
from pyromq.operate.offsets import EARLIEST
from pyromq.pipeline.core.errors import DataLossError
from pyromq.pipeline.jobs import Selection
from pyromq.pipeline.jobs.common.plain_rows import rows_of
from pyromq.pipeline.mirroring import copying, packing
from pyromq.pipeline.mirroring.errors import MirrorConflictError, TargetTopicError
from pyromq.pipeline.mirroring.job import Mirroring, MirrorRound, MirrorSettings, mirror, round_text
from pyromq.pipeline.mirroring.marks import MIRRORED_FROM
from pyromq.testing import LoopbackBroker
from pyromq.wire.received import Received
from pyromq.wire.send_statuses import UNSURE_CODES
from tests.integration import mirror_worker

pytestmark = pytest.mark.integration


class TwoClusters:
    def __init__(self, here: LoopbackBroker, there: LoopbackBroker, producer: Producer, admins: list[Admin]) -> None:
        self.here, self.there = here.nameserver, there.nameserver
        self.producer = producer
        self.admin, self.to_admin = admins
        self.sent: list[str] = []

    def send(self, count: int, **more: Any) -> None:
        receipts = [self.producer.send(Message("orders", b"%d" % number, **more)) for number in range(count)]
        self.sent += [receipt.message_id for receipt in receipts]

    def mirror(self, **more: Any) -> MirrorRound:
        return mirror(["orders"], self.here, self.there, **more)

    def rows(self, topic: str = "orders", *, here: bool = False) -> list[dict[str, Any]]:
        chosen = Selection(topics=(topic,), nameserver=self.here if here else self.there)
        return list(rows_of(chosen, "queue_id", "queue_offset", "message_id", "body", "delivery_attempt", "properties"))

    def ids(self) -> list[str]:
        return [row["message_id"] for row in self.rows()]

    def stand(self, group: str, number: int, offset: int) -> None:
        """Let the group stand at an offset of a queue."""
        queue = self.admin.topics.route("orders").readable_queues("orders")[number]
        self.admin.offsets.commit(group, queue, offset)

    def stands(self, group: str) -> dict[int, int | None]:
        queues = self.to_admin.topics.route("orders").readable_queues("orders")
        return {queue.number: self.to_admin.offsets.committed(group, queue) for queue in queues}


@pytest.fixture
def clusters() -> Iterator[TwoClusters]:
    with (
        LoopbackBroker() as here,
        LoopbackBroker() as there,
        Producer(here.nameserver, group="shop") as producer,
        Admin(here.nameserver) as admin,
        Admin(there.nameserver) as to_admin,
    ):
        made = TwoClusters(here, there, producer, [admin, to_admin])
        admin.topics.create("orders", queues=2)
        made.send(1)
        yield made


def test_copies_are_the_messages_in_their_order(clusters: TwoClusters) -> None:
    clusters.send(30, keys="k 1", tags="paid", sharding_key="s", properties={"colour": "green"})
    first, again = clusters.mirror(), clusters.mirror()
    assert (first.copied, first.lag, first.queues, again.copied) == (31, 0, 2, 0)
    here, there = clusters.rows(here=True), clusters.rows()
    assert sorted(clusters.ids()) == sorted(clusters.sent), "a message has the same id in both"
    for number in (0, 1):
        in_order = [row["message_id"] for row in here if row["queue_id"] == number]
        assert [row["message_id"] for row in there if row["queue_id"] == number] == in_order
    (copy,) = [row for row in there if row["message_id"] == clusters.sent[-1]]
    assert copy["properties"]["colour"] == "green" and copy["properties"]["KEYS"] == "k 1"
    assert copy["properties"][MIRRORED_FROM].count(":") == 2 and copy["body"] == b"29"
    lag = clusters.admin.groups.lag("pyromq-mirror", "orders")
    assert sum(each.broker_offset - each.consumer_offset for each in lag.values()) == 0, "every tool shows its lag"


def test_the_lag_is_shown_while_it_is_mirrored(clusters: TwoClusters) -> None:
    clusters.send(30)
    clusters.admin.groups.create("billing")
    clusters.stand("billing", 0, 3)
    told: list[tuple[int, int | None]] = []
    rounds: list[MirrorRound] = []
    clusters.mirror(groups=["billing"], progress=lambda done, total: told.append((done, total)), on_round=rounds.append)
    assert told[-1] == (31, 31) and {total for _, total in told} == {31}, "copied of those that were behind"
    behind = sum(row["queue_id"] == 0 for row in clusters.rows()) - 3
    assert round_text(rounds[-1]) == f"lag 0, billing {behind} behind"


def test_every_message_is_there_once_wherever_the_mirror_is_killed(clusters: TwoClusters) -> None:
    clusters.admin.groups.create("billing")
    for step, count in (("read", 1), ("sending", 3), ("sent", 2), ("committed", 1)):
        clusters.send(60)
        killed = run_worker(clusters, step, count)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
    clusters.send(10)
    ended = run_worker(clusters, "never", 1)
    assert ended.returncode == 0, ended.stderr
    assert sorted(clusters.ids()) == sorted(clusters.sent)
    copied, repeated = map(int, ended.stdout.split())
    assert copied < 250 and repeated == 0, "what was there before the kills is not copied again"


def run_worker(clusters: TwoClusters, step: str, count: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", mirror_worker.__name__, clusters.here, clusters.there, step, str(count)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize("code", sorted(UNSURE_CODES))
@pytest.mark.parametrize("fate", ["kept", "shown later", "gone"])
def test_copies_that_the_next_master_may_lack_are_there_once(
    clusters: TwoClusters, monkeypatch: pytest.MonkeyPatch, code: int, fate: str
) -> None:
    """A broker says of two requests that it stored them alone: it shows them, or later, or a new master lacks them."""
    clusters.mirror()
    clusters.send(40)
    asked: list[OutgoingMessage] = []

    async def unsure(client: Client, message: OutgoingMessage, queue: QueueId, **more: Any) -> Any:
        asked.append(message)
        if len(asked) not in (2, 5):
            return await send_raw(client, message, queue, **more)
        if fate == "kept":
            response = await send_raw(client, message, queue, **more)
            return msgspec.structs.replace(response, code=code)
        end = await AsyncAdmin(client=client).offsets.range(queue)
        if fate == "shown later":
            loop = asyncio.get_running_loop()
            loop.call_later(1.5, lambda: later.append(loop.create_task(send_raw(client, message, queue, **more))))
        else:
            await connection_ends(client.master_link(queue.broker))
        return Received(code=code, header={"msgId": "", "queueId": "0", "queueOffset": str(end.max_offset)})

    later: list[Any] = []
    monkeypatch.setattr(packing, "BATCH_BYTES", 1_000)
    monkeypatch.setattr(copying, "send_raw", unsure)
    done = clusters.mirror()
    assert sorted(clusters.ids()) == sorted(clusters.sent)
    assert (done.copied, done.repeated) == (40, 0)


async def connection_ends(link: Link) -> None:
    """As with a master that another one follows."""
    assert link.ready is not None
    link.ready.abort("the master is another one now")
    await asyncio.sleep(0)


def test_a_group_moves_without_gap_or_repeat(clusters: TwoClusters) -> None:
    """It has consumed a part here; over there it gets exactly the rest, also of what was mirrored later."""
    clusters.send(40)
    consumed = consume(clusters.here, 25)
    clusters.mirror()
    clusters.send(10)
    done = clusters.mirror(groups=["billing"])
    (group,) = done.groups
    assert (group.group, group.behind, group.is_exact) == ("billing", 51 - len(consumed), True)

    rest = consume(clusters.there, group.behind)

    assert sorted(consumed + rest) == sorted(clusters.sent)
    clusters.send(4)
    again = clusters.mirror(groups=["billing"])
    assert again.groups[0].behind == 4, "what the group consumed over there is not taken back"


def consume(nameserver: str, count: int) -> list[str]:
    """Ids of messages that group billing consumes, about so many, committed."""
    found: list[str] = []
    deadline = time.monotonic() + 60
    with PullConsumer(nameserver, group="billing", topics=["orders"], start="earliest") as consumer:
        while len(found) < count and time.monotonic() < deadline:
            found += [message.message_id for message in consumer.poll(500, count_max=count - len(found))]
        consumer.commit()
    return found


def test_progress_is_found_among_other_messages_and_never_passes_what_is_not_consumed(clusters: TwoClusters) -> None:
    clusters.admin.groups.create("billing")
    clusters.mirror()
    with Producer(clusters.there, group="others") as other:
        for _ in range(7):
            other.send(Message("orders", b"not a copy"))
    clusters.send(20)
    clusters.mirror()
    here = {number: [row for row in clusters.rows(here=True) if row["queue_id"] == number] for number in (0, 1)}
    for offset in range(len(here[0]) + 1):
        clusters.stand("billing", 0, offset)
        clusters.mirror(groups=["billing"])
        stands = clusters.stands("billing")[0]
        copies = [row for row in clusters.rows() if row["queue_id"] == 0 and MIRRORED_FROM in row["properties"]]
        assert stands is not None
        left = [row["message_id"] for row in copies if row["queue_offset"] >= stands]
        assert left == [row["message_id"] for row in here[0][offset:]]


def test_a_group_ahead_of_the_mirror_is_said_to_be(clusters: TwoClusters, monkeypatch: pytest.MonkeyPatch) -> None:
    """It consumes a message that comes after the mirror has looked what there is."""
    clusters.admin.groups.create("billing")
    clusters.send(9)

    def consume_more(self: Mirroring) -> dict[Any, Any]:
        clusters.send(2)
        for queue, end in clusters.admin.offsets.ends("orders").items():
            clusters.stand("billing", queue.number, end)
        return {}

    with monkeypatch.context() as patched:
        patched.setattr(Mirroring, "_retries", consume_more)
        (group,) = clusters.mirror(groups=["billing"]).groups
    assert not group.is_exact and group.behind == 0
    (group,) = clusters.mirror(groups=["billing"]).groups
    assert group.is_exact and group.behind == 0, "after the next round it is where it was here"
    with pytest.raises(GroupNotFoundError):
        clusters.mirror(groups=["nobody"])


def test_retries_of_a_group_are_mirrored_with_their_attempts(clusters: TwoClusters) -> None:
    clusters.admin.groups.create("billing")
    clusters.admin.topics.create(retry_topic("billing"), queues=1)
    send_back(clusters, 3)
    clusters.mirror(groups=["billing"])
    (copy,) = clusters.rows(retry_topic("billing"))
    assert copy["delivery_attempt"] == 3 and copy["properties"]["RETRY_TOPIC"] == "orders"


def send_back(clusters: TwoClusters, attempt: int) -> None:
    """A message in the retry topic, as brokers put it there."""
    from pyromq.client.producer.outgoing import SEND, OutgoingMessage
    from pyromq.client.producer.raw_send import send_raw
    from pyromq.pipeline.core.connections import connect
    from pyromq.pipeline.core.options import Use, parse_options

    connected = connect(parse_options({"topic": "orders", "nameserver": clusters.here}, Use.BATCH))
    topic = retry_topic("billing")
    (queue,) = clusters.admin.topics.route(topic).readable_queues(topic)
    connected.call(connected.client.routes.refresh(topic, timeout_ms=5_000))
    message = OutgoingMessage(SEND, topic, b"again", "RETRY_TOPIC\x01orders\x02", "", 0, 0)
    connected.call(send_raw(connected.client, message, queue, group="any", more={"j": str(attempt)}))


def test_a_topic_that_was_made_anew_is_a_loss_that_is_said(clusters: TwoClusters) -> None:
    clusters.send(9)
    clusters.mirror()
    clusters.admin.topics.delete("orders")
    clusters.admin.topics.create("orders", queues=2)
    until_known(clusters.admin, "orders")
    with pytest.raises(DataLossError, match="was the topic deleted"):
        clusters.mirror()


def test_a_topic_with_too_few_queues_is_refused(clusters: TwoClusters) -> None:
    clusters.to_admin.topics.create("orders", queues=1)
    until_known(clusters.to_admin, "orders")
    with pytest.raises(TargetTopicError, match="2 queues here and 1 there"):
        clusters.mirror()
    with pytest.raises(TopicNotFoundError):
        mirror(["nothing"], clusters.here, clusters.there)


def until_known(admin: Admin, topic: str) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            admin.topics.route(topic)
            return
        except TopicNotFoundError:
            time.sleep(0.05)


def test_a_second_mirror_is_noticed(clusters: TwoClusters) -> None:
    """One reads, and before it sends the other copies the same messages."""
    clusters.admin.groups.create("billing")
    steps: list[str] = []

    def run_other(step: str) -> None:
        steps.append(step)
        if len(steps) > steps_of_first_round and steps.count("other") == 0 and step == "sending":
            steps.append("other")
            ended = run_worker(clusters, "never", 1)
            assert ended.returncode == 0, ended.stderr

    steps_of_first_round = 1_000
    follower = Mirroring(("orders",), clusters.here, clusters.there, MirrorSettings(on_step=run_other))
    clusters.send(20)
    follower.round()
    steps_of_first_round = len(steps)
    clusters.send(20)
    with pytest.raises(MirrorConflictError, match="stop one"):
        follower.round()


def test_the_command_shows_what_was_copied_and_the_groups(
    clusters: TwoClusters, capsys: pytest.CaptureFixture[str]
) -> None:
    clusters.admin.groups.create("billing")
    clusters.send(5)
    command = ["pipeline", "mirror", "orders", "-n", clusters.here, "--to", clusters.there, "-g", "billing"]
    assert main([*command, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["copied"], found["lag"], found["groups"][0]["group"]) == (6, 0, "billing")
    assert main([*command, "-o", "table"]) == 0
    assert "billing" in capsys.readouterr().out
    assert clusters.admin.offsets.plan_reset("billing", "orders", to_ms=EARLIEST)
