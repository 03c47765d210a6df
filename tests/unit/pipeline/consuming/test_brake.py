"""The brake of a consuming query: what counts, when it stops, and that it sends nothing back then."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType

from pyromq.errors import ConfigError
from pyromq.pipeline.consuming import writer
from pyromq.pipeline.consuming.brake import FirstTries, first_tries
from pyromq.pipeline.consuming.group import consume
from pyromq.pipeline.consuming.options import ConsumeSettings
from pyromq.pipeline.consuming.rows import Record, judge_records
from pyromq.pipeline.consuming.verdicts import Dead
from pyromq.pipeline.consuming.writer import ConsumeSource, ConsumeWriter, Handled, Work, handle_rows
from pyromq.pipeline.core.errors import TooManyFailuresError
from pyromq.pipeline.core.options import SourceOptions
from tests.unit.pipeline.consuming.test_rows import batch


def facts(share_max: float = 0.5) -> Work:
    reaching = SourceOptions(nameserver="n:1")
    return Work(reaching, "g", 16, in_batches=False, handler=pickle.dumps(None), failure_share_max=share_max)


class SendBacks:
    """Notes how many rows were sent back."""

    def __init__(self) -> None:
        self.retried, self.dead = 0, 0

    def send_back(self, judged: Any) -> None:
        self.retried += len(judged)


@pytest.fixture
def sent_back(monkeypatch: pytest.MonkeyPatch) -> SendBacks:
    found = SendBacks()
    monkeypatch.setattr(writer, "RowSendBack", lambda *_: found)
    monkeypatch.setattr(writer, "connect", lambda reaching: None)
    return found


def rows(count: int, *, attempt: int = 0) -> Any:
    made = batch(*(b"%d" % row for row in range(count)))
    return made.set_column(made.schema.get_field_index("delivery_attempt"), "delivery_attempt", [attempt] * count)


def broken(record: Record) -> None:
    raise KeyError("price")


def test_a_handler_that_always_fails_stops_the_task_before_any_row_is_sent_back(sent_back: SendBacks) -> None:
    with pytest.raises(TooManyFailuresError, match=r"400 of 400 messages failed .* first error: KeyError: 'price'"):
        handle_rows((facts(), broken), "q/0", iter([rows(400), rows(400)]))
    assert sent_back.retried == 0


@pytest.mark.parametrize(
    ("share_max", "count", "handler"),
    [
        (0.5, 99, broken),  # too few to tell
        (1.0, 400, broken),  # the brake is off
        (0.5, 400, lambda record: broken(record) if int(record.body) % 2 else None),  # half is not more than half
        (0.5, 400, lambda record: Dead("a price below zero")),  # decided, not failed
    ],
)
def test_what_does_not_stop_a_query(share_max: float, count: int, handler: Any, sent_back: SendBacks) -> None:
    assert handle_rows((facts(share_max), handler), "q/0", iter([rows(count)])).rows == count
    assert sent_back.retried >= 99


def test_messages_that_come_again_together_do_not_stop_a_query(sent_back: SendBacks) -> None:
    handled = handle_rows((facts(), broken), "q/0", iter([rows(400, attempt=2)]))
    assert handled.tries == FirstTries() and sent_back.retried == 400


def test_errors_are_masked_where_they_are_shown() -> None:
    some = rows(2)
    tries = first_tries(some, judge_records(some, broken), lambda text: text.replace("price", "…"))
    assert tries == FirstTries(2, 2, "KeyError: '…'")


def test_small_batches_are_added_up_and_the_next_one_is_refused_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    option, folder = facts().as_option(), str(tmp_path)

    def next_batch() -> ConsumeWriter:
        source = ConsumeSource({"work": option, "checkpointLocation": folder})
        made: Any = source.streamWriter(StructType(), False)
        return made  # type: ignore[no-any-return]

    for number in range(4):
        next_batch().commit([Handled(15, 14, 0, FirstTries(15, 14, "no price")), Handled(15, 0, 0)], number)
        assert "failed=14 of=15 first_error=no price" in caplog.messages[-1]
    for number in range(4, 7):
        next_batch().commit([Handled(15, 14, 0, FirstTries(15, 14, "no price"))], number)
    with pytest.raises(TooManyFailuresError, match="98 of 105 messages failed"):
        next_batch()
    next_batch()  # it was started again


def test_a_good_hundred_is_forgotten_before_the_next_is_counted(tmp_path: Path) -> None:
    made = ConsumeWriter(facts().as_option(), str(tmp_path))
    made.commit([Handled(1_000, 0, 0, FirstTries(1_000, 0))], 0)
    made.commit([Handled(150, 150, 0, FirstTries(150, 150, "x"))], 1)
    with pytest.raises(TooManyFailuresError, match="150 of 150"):
        made.brake.check()


def test_settings_and_handlers_are_checked_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match="failure_share_max must be from 0 to 1, not 50"):
        ConsumeSettings(failure_share_max=50)

    async def handle(record: Record) -> None: ...

    with pytest.raises(ConfigError, match="coroutine function"):
        consume(None, "orders", "g", handle)  # type: ignore[arg-type]
