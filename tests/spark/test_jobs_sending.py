"""``replay`` and ``redrive``: what is sent again, what not, and what is told of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from pyromq import Message
from pyromq.model import property_names as names
from pyromq.model.names import dead_letter_topic
from pyromq.operate.resend.outcomes import ItemStatus
from pyromq.operate.resend.outgoing import REDRIVEN_FROM, Outgoing, redriven_id
from pyromq.pipeline.core.options import SourceOptions
from pyromq.pipeline.jobs import Selection
from pyromq.pipeline.jobs.common.patching import PatchInput
from pyromq.pipeline.jobs.resending.outgoing import source_of
from pyromq.pipeline.jobs.resending.redrive import CanaryVerdict
from pyromq.pipeline.jobs.resending.replay import REPLAY, REPLAYED_FROM
from pyromq.pipeline.jobs.resending.sending import PacedSender
from pyromq.pipeline.reading.cluster import Cluster
from pyromq.testing import ManualClock
from tests.spark.engines import redrive, replay
from tests.spark.topics import Topics, bodies

pytestmark = pytest.mark.spark


@pytest.fixture(params=["driver", "executors"])
def sends(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Who sends; executors where a test has few messages all the same."""
    if request.param == "executors":
        monkeypatch.setattr("pyromq.pipeline.jobs.resending.executors.FEW", 0)
    return str(request.param)


def read(spark: Any, topics: Topics, topic: str) -> list[Any]:
    found: list[Any] = Selection(topics=(topic,), nameserver=topics.nameserver).frame(spark).collect()
    return found


# --- replay ----------------------------------------------------------------------------------------------------------


def test_a_dry_replay_counts_and_shows_and_sends_nothing(spark: Any, topics: Topics) -> None:
    topic, target = topics.make(), topics.make("-to")
    topics.send(topic, range(12))
    wanted = Selection(topics=(topic,), nameserver=topics.nameserver, where="cast(body AS string) RLIKE '-[0-4]$'")

    done = replay(spark, wanted, target)

    assert done.is_dry and done.found == 5 and len(done.samples) == 5 and done.took_s > 0
    assert {sample.body for sample in done.samples} == set(topics.sent[:5])
    assert not read(spark, topics, target)


def test_a_replay_sends_a_range_once_however_often_it_is_run_under_its_name(
    spark: Any, topics: Topics, sends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyromq.pipeline.jobs.common.selection.ROWS_AT_ONCE", 2)
    topic, target = topics.make(queues=1), topics.make("-to")
    topics.send(topic, range(10), tags="t", keys="k", sharding_key="s", properties={"colour": "green"})
    broker = topics.queues(topic)[0].broker
    wanted = Selection(
        topics=(topic,), nameserver=topics.nameserver,
        begin={topic: {broker: {"0": 2}}}, end={topic: {broker: {"0": 7}}},
    )  # fmt: skip

    some = replay(spark, wanted, target, name="again", dry_run=False, count_max=2)
    first = replay(spark, wanted, target, name="again", dry_run=False)
    second = replay(spark, wanted, target, name="again", dry_run=False)

    assert (some.found, some.sent) == (2, 2)
    assert (first.found, first.sent, first.sent_before, first.failed) == (5, 3, 2, 0)
    assert (second.sent, second.sent_before) == (0, 5)
    rows = sorted(read(spark, topics, target), key=lambda row: int(row["queue_offset"]))
    assert [bytes(row["body"]).decode() for row in rows] == topics.sent[2:7]
    for row in rows:
        assert row["tags"] == "t" and row["keys"] == "k" and row["properties"]["colour"] == "green"
        assert row["properties"][REPLAY] == "again" and row["properties"][REPLAYED_FROM]


def test_a_replay_into_its_own_topic_ends_and_does_not_send_its_own_messages(
    spark: Any, topics: Topics, sends: str
) -> None:
    topic = topics.make()
    topics.send(topic, range(3))
    whole = Selection(topics=(topic,), nameserver=topics.nameserver)
    shown = whole.frozen()
    topics.send(topic, ["comes later"])

    first = replay(spark, shown, topic, name="again", dry_run=False)
    second = replay(spark, whole, topic, name="again", dry_run=False)

    assert (first.found, first.sent) == (3, 3) and (second.found, second.sent, second.sent_before) == (4, 1, 3)
    assert bodies(read(spark, topics, topic)) == Counter(2 * topics.sent)


def test_a_replay_keeps_to_its_rate(spark: Any, topics: Topics) -> None:
    topic, target = topics.make(), topics.make("-to")
    topics.send(topic, range(10))
    waits: list[float] = []
    clock = ManualClock()  # stands still, so the place of each chunk is all that counts
    sender = PacedSender(topics.nameserver, {}, rate=40, sleep=waits.append, clock=clock)
    rows = read(spark, topics, topic)
    to_send = [
        Outgoing(
            source=source_of(row), topic=target, message_id=f"{number:032X}", body=b"x",
            properties=((names.UNIQUE_KEY, f"{number:032X}"),), is_checked=False,
        )
        for number, row in enumerate(rows)
    ]  # fmt: skip
    assert all(each.status is ItemStatus.SENT for each in sender.send_all(to_send))
    assert waits == pytest.approx([0.05, 0.1, 0.15, 0.2])  # chunks of two, 50 ms apart


def test_a_topic_that_does_not_exist_fails_every_message_with_a_reason(spark: Any, topics: Topics, sends: str) -> None:
    topic = topics.make()
    topics.send(topic, range(2))
    wanted = Selection(topics=(topic,), nameserver=topics.nameserver, options={"retryTimeout": "1s"})
    done = replay(spark, wanted, topics.name("-nowhere"), dry_run=False)
    assert (done.found, done.failed) == (2, 2) and "nowhere" in done.failures[0].error
    assert done.name, "under which it can be run again"


# --- from executors ---------------------------------------------------------------------------------------------------


@pytest.fixture
def by_executors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyromq.pipeline.jobs.resending.executors.FEW", 0)


def test_executors_keep_the_order_of_a_sharding_key(spark: Any, topics: Topics, by_executors: None) -> None:
    topic, target = topics.make(queues=4), topics.make("-to", queues=4)
    for number in range(120):
        topics.send(topic, [number], sharding_key=f"key-{number % 3}", tags=f"t{number}")
    topics.send(topic, range(120, 400))

    done = replay(spark, Selection(topics=(topic,), nameserver=topics.nameserver), target, dry_run=False)

    assert (done.found, done.sent, done.failed) == (400, 400, 0)
    rows = sorted(read(spark, topics, target), key=lambda row: (row["queue_id"], row["queue_offset"]))
    assert bodies(rows) == Counter(topics.sent)
    for key in range(3):
        mine = [row for row in rows if row["properties"].get(names.SHARDING_KEY) == f"key-{key}"]
        assert len({row["queue_id"] for row in mine}) == 1, "one key, one queue"
        assert [row["tags"] for row in mine] == [f"t{number}" for number in range(key, 120, 3)]


def test_each_letter_has_its_outcome_and_its_place(spark: Any, topics: Topics, by_executors: None) -> None:
    topic = topics.make(queues=2)
    bury(topics, topic, [f"{number}" for number in range(50)])
    told: list[tuple[int, int | None]] = []
    done = redrive(
        spark, topics.group, nameserver=topics.nameserver, dry_run=False,
        tell=lambda done, total=None, text="": told.append((done, total)),
    )  # fmt: skip
    assert (done.found, done.sent) == (50, 50) and told[-1] == (50, 50)
    places = {(row["queue_id"], row["queue_offset"]): row["message_id"] for row in read(spark, topics, topic)}
    for letter in done.letters:
        assert places[int(letter.to_queue.split(":")[1]), letter.to_offset] == letter.new_message_id
    counts = topics.admin.dead_letters.count(topics.group)
    assert (counts.waiting, counts.total) == (0, 50), "all of them count as redriven"


# --- redrive ---------------------------------------------------------------------------------------------------------


def bury(topics: Topics, topic: str, texts: list[str], **more: str) -> str:
    """Dead letters as brokers make them: a message of the group's dead-letter topic that says where it came from."""
    dead = dead_letter_topic(topics.group)
    topics.admin.groups.create(topics.group)
    topics.admin.topics.create(dead, queues=1)
    sender = PacedSender(topics.nameserver, {})
    rows = [
        {"message_id": f"M{number}", "offset_message_id": f"O{number}", "keys": f"key-{number}", "tags": ""}
        for number in range(len(texts))
    ]
    letters = [
        Outgoing(
            source=source_of(row), topic=dead, message_id=f"{topics.test}-{number}", body=text.encode(),
            is_checked=False,
            properties=((names.UNIQUE_KEY, f"{topics.test}-{number}"), (names.KEYS, f"key-{number}"),
             (names.RETRY_TOPIC, topic),
             (names.ORIGIN_MESSAGE_ID, "X"), *more.items()),
        )
        for number, (row, text) in enumerate(zip(rows, texts, strict=True))
    ]  # fmt: skip
    assert all(each.status is ItemStatus.SENT for each in sender.send_all(letters))
    return dead


def test_dead_letters_go_back_to_their_topic_cleaned_patched_and_once(spark: Any, topics: Topics, sends: str) -> None:
    topic = topics.make()
    bury(topics, topic, ["1,5", "2,5", "broken"], error="comma")

    def mend(letter: PatchInput) -> PatchInput | None:
        if letter.body == b"broken":
            return None
        return msgspec.structs.replace(letter, body=letter.body.replace(b",", b"."), tags="mended")

    dry = redrive(spark, topics.group, nameserver=topics.nameserver, where="keys <> 'key-1'", patch=mend)
    assert dry.is_dry and [each.status for each in dry.letters] == [ItemStatus.WOULD_SEND, ItemStatus.HELD_BACK]

    done = redrive(spark, topics.group, nameserver=topics.nameserver, patch=mend, dry_run=False)
    dry = redrive(spark, topics.group, nameserver=topics.nameserver, only_group=True)
    assert [each.status for each in dry.letters] == [ItemStatus.SENT_BEFORE] * 2 + [ItemStatus.WOULD_SEND]
    again = redrive(spark, topics.group, nameserver=topics.nameserver, patch=mend, dry_run=False)

    assert (done.found, done.sent, done.held_back) == (3, 2, 1) and (again.sent, again.sent_before) == (0, 2)
    rows = read(spark, topics, topic)
    assert bodies(rows) == Counter(["1.5", "2.5"])
    for row in rows:
        assert row["tags"] == "mended" and row["properties"]["error"] == "comma"
        assert names.ORIGIN_MESSAGE_ID not in row["properties"] and names.RETRY_TOPIC not in row["properties"]
        assert row["message_id"] == redriven_id(row["properties"][REDRIVEN_FROM])


def test_a_message_that_left_several_letters_is_sent_once(spark: Any, topics: Topics, sends: str) -> None:
    topic = topics.make()
    for _ in range(2):
        bury(topics, topic, ["once", "twice"])
    first = redrive(spark, topics.group, nameserver=topics.nameserver, dry_run=False)
    again = redrive(spark, topics.group, nameserver=topics.nameserver, dry_run=False)
    assert (first.found, first.sent, first.same_message) == (4, 2, 2)
    assert (again.sent, again.sent_before, again.same_message) == (0, 2, 2)
    assert bodies(read(spark, topics, topic)) == Counter(["once", "twice"])


def test_a_patch_that_fails_fails_its_dead_letter_alone(spark: Any, topics: Topics, sends: str) -> None:
    topic = topics.make()
    bury(topics, topic, ["1", "x"])

    def mend(letter: PatchInput) -> PatchInput:
        return msgspec.structs.replace(letter, body=b"%d" % int(letter.body))

    done = redrive(spark, topics.group, nameserver=topics.nameserver, patch=mend, dry_run=False)
    assert (done.sent, done.failed) == (1, 1)
    assert "ValueError" in next(each.error for each in done.letters if each.status is ItemStatus.FAILED)


def test_a_canary_that_is_not_consumed_holds_the_rest_back(spark: Any, topics: Topics, sends: str) -> None:
    topic = topics.make()
    bury(topics, topic, ["1", "2", "3"])
    for sent_before in (0, 1):  # run again, the canary is another one: that the first was sent proves nothing
        done = redrive(spark, topics.group, nameserver=topics.nameserver, dry_run=False, canary=1, canary_wait_s=0.2)
        assert done.canary is CanaryVerdict.NOT_CONSUMED
        assert (done.sent, done.sent_before, done.held_back) == (1, sent_before, 2 - sent_before)
    assert bodies(read(spark, topics, topic)) == Counter(["1", "2"])


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_canary_passes_when_it_is_consumed_and_does_not_come_back(
    spark: Any, topics: Topics, sends: str, comes_back: bool
) -> None:
    topic = topics.make()
    bury(topics, topic, ["1", "2", "3"])
    looks: list[float] = []

    def consume(seconds: float) -> None:
        """The group consumes what is there while the job waits; it may give up on it once more."""
        if not looks:
            ends = {queue: topics.admin.offsets.range(queue).max_offset for queue in topics.queues(topic)}
            Cluster(SourceOptions(nameserver=topics.nameserver, group=topics.group)).commit(ends)
            if comes_back:
                canary = read(spark, topics, topic)[0]
                bury_again(topics, topic, canary["properties"][REDRIVEN_FROM])
        looks.append(seconds)

    done = redrive(
        spark, topics.group, nameserver=topics.nameserver, dry_run=False, canary=1, canary_wait_s=5, sleep=consume
    )
    assert done.canary is (CanaryVerdict.CAME_BACK if comes_back else CanaryVerdict.PASSED)
    assert (done.sent, done.held_back) == ((1, 2) if comes_back else (3, 0))


def bury_again(topics: Topics, topic: str, place: str) -> None:
    topics.producer.send(Message(dead_letter_topic(topics.group), b"1", properties={REDRIVEN_FROM: place}))
