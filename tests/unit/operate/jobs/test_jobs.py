"""Jobs on a real broker: every item ends with one outcome, whatever goes wrong."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from pyromq.aio import ReceivedMessage
from pyromq.errors import ConfigError, ConnectFailedError, NoSuchJobError
from pyromq.operate.jobs.book import KEPT_MAX, RUNNING_MAX, Jobs, TooManyJobsError
from pyromq.operate.jobs.files import JobBusyError
from pyromq.operate.jobs.outcomes import ItemResult, Outcome
from pyromq.operate.jobs.record import JobRecord, JobState
from pyromq.operate.jobs.run import PROBLEMS_IN_A_ROW_MAX
from pyromq.operate.jobs.specs import CopyTopic, Delete, Move, NewJob, Pace, Redrive, Resend, ResetOffsets
from pyromq.operate.reading.search import MessageQuery
from pyromq.operate.resend.edits import LetterEdit
from pyromq.wire.codes import ResponseCode
from tests.unit.console.shop import Shop, a_shop

pytestmark = pytest.mark.usefixtures("quiet")


def on_a_shop(test: Callable[[Shop, Jobs], Awaitable[None]], folder: Path | None = None) -> None:
    async def run() -> None:
        async with a_shop() as shop, shop.jobs(folder) as jobs:
            await test(shop, jobs)
            shop.broker.assert_nothing_lost()

    asyncio.run(run())


async def over(shop: Shop, jobs: Jobs, new: NewJob) -> tuple[JobRecord, list[ItemResult]]:
    record = await jobs.wait(jobs.start(new, by="ada").id)
    return record, list(jobs.results(record.id))


async def until(jobs: Jobs, job_id: str, state: JobState) -> JobRecord:
    while jobs.get(job_id).state is not state:
        run = jobs.run_of(job_id)
        assert run is not None, jobs.get(job_id)
        await run.changed.wait()
    return jobs.get(job_id)


async def stored(shop: Shop, topic: str = "orders") -> list[ReceivedMessage]:
    return (await shop.admin.messages.search(MessageQuery(topic=topic, count_max=1_000))).messages


def bodies(found: list[ReceivedMessage]) -> list[bytes]:
    return sorted(message.body for message in found)


NUMBERS = [b"%d" % number for number in range(10)]


# --- dead letters --------------------------------------------------------------------------------------------------


def test_a_redrive_confirms_each_letter_and_the_next_one_finds_nothing_left_to_do() -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.bury(NUMBERS)
        record, results = await over(shop, jobs, NewJob(spec=Redrive(group="billing")))
        assert record.state is JobState.FINISHED
        assert [result.outcome for result in results] == [Outcome.CONFIRMED] * 10
        assert bodies(await stored(shop)) == sorted(NUMBERS * 2)
        assert all(letter.is_redriven for letter in await shop.admin.dead_letters.list("billing"))
        again, none = await over(shop, jobs, NewJob(spec=Redrive(group="billing")))
        assert (again.counts.total, none) == (0, [])

    on_a_shop(test)


def test_a_dry_run_sends_nothing_and_claims_nothing() -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.bury(NUMBERS)
        record, results = await over(shop, jobs, NewJob(spec=Redrive(group="billing"), dry_run=True))
        assert {result.outcome for result in results} == {Outcome.NOT_ATTEMPTED}
        assert results[0].text == "would be sent to orders"
        assert "nothing was done" in record.verdict()
        assert len(await stored(shop)) == 10

    on_a_shop(test)


def test_chosen_letters_alone_are_redriven_and_a_chosen_one_that_is_missing_is_told() -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.bury(NUMBERS)
        letters = await shop.admin.dead_letters.list("billing")
        chosen = (letters[3].offset_message_id, letters[7].offset_message_id, "7F00000100002A9F0000000000FFFFFF")
        record, results = await over(shop, jobs, NewJob(spec=Redrive(group="billing", letters=chosen)))
        assert {result.item: result.outcome for result in results} == {
            chosen[0]: Outcome.CONFIRMED,
            chosen[1]: Outcome.CONFIRMED,
            chosen[2]: Outcome.UNCHANGED,
        }
        assert record.counts.total == 3
        left, _ = await over(shop, jobs, NewJob(spec=Redrive(group="billing")))
        assert (left.counts.confirmed, left.counts.unchanged) == (8, 2)

    on_a_shop(test)


def test_one_letter_is_sent_edited_and_once() -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.bury(NUMBERS[:2])
        first, second = [letter.offset_message_id for letter in await shop.admin.dead_letters.list("billing")]
        edit = LetterEdit(body=b"mended", keys=("k",), properties={"by": "ada"})
        spec = Redrive(group="billing", letters=(first,), edit=edit)
        record, _ = await over(shop, jobs, NewJob(spec=spec, dry_run=True))
        assert record.counts.not_attempted == 1 and len(await stored(shop)) == 2
        record, results = await over(shop, jobs, NewJob(spec=spec))
        assert [result.outcome for result in results] == [Outcome.CONFIRMED]
        (sent,) = [message for message in await stored(shop) if message.body == b"mended"]
        assert (sent.keys, sent.get("by"), sent.get("REDRIVEN_FROM")) == (("k",), "ada", first)
        _, (result,) = await over(shop, jobs, NewJob(spec=spec))
        assert result.outcome is Outcome.UNCHANGED and len(await stored(shop)) == 3
        assert jobs.get(record.id).spec == msgspec.structs.replace(spec, run_id=record.id), "the record has the edit"
        for letters in ((), (first, second)):
            with pytest.raises(ConfigError, match="an edit is for one letter"):
                jobs.start(NewJob(spec=Redrive(group="billing", letters=letters, edit=edit)), by="ada")
        bad = LetterEdit(body=b"", properties={"KEYS": "x"})
        with pytest.raises(ConfigError, match="belong to the system"):
            jobs.start(NewJob(spec=Redrive(group="billing", letters=(second,), edit=bad)), by="ada")
        assert len(jobs.all()) == 3, "what cannot be is no job"

    on_a_shop(test)


@pytest.mark.parametrize("kind", [Redrive, CopyTopic, Resend, ResetOffsets, Delete])
def test_every_kind_of_job_says_whether_it_can_be_undone(kind: type[Redrive]) -> None:
    assert ("cannot be" in kind.undo_note) is (kind is not ResetOffsets), "a reset alone can"


def test_letters_are_chosen_by_what_their_consumer_said() -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.bury([b"1", b"2"], reason="no such customer")
        record, _ = await over(shop, jobs, NewJob(spec=Redrive(group="billing", errors=("card refused",))))
        assert record.counts.total == 0
        record, _ = await over(shop, jobs, NewJob(spec=Redrive(group="billing", errors=("no such customer",))))
        assert record.counts.confirmed == 2

    on_a_shop(test)


def test_a_lost_response_is_settled_by_looking_for_the_copy() -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.bury(NUMBERS)
        shop.broker.faults.lose_response("orders", skip=2)
        record, _ = await over(shop, jobs, NewJob(spec=Redrive(group="billing")))
        assert shop.broker.faults.waiting == 0
        assert record.counts.confirmed == 10
        assert bodies(await stored(shop)) == sorted(NUMBERS * 2)

    on_a_shop(test)


def test_a_send_without_a_response_and_without_a_copy_is_unknown_and_the_next_run_sends_it() -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.bury(NUMBERS)
        shop.broker.faults.cut_connection("orders", skip=2)
        record, results = await over(shop, jobs, NewJob(spec=Redrive(group="billing")))
        assert (record.counts.confirmed, record.counts.unknown) == (9, 1)
        assert record.has_doubt
        unknown = next(result for result in results if result.outcome is Outcome.UNKNOWN)
        again = await jobs.wait(jobs.go_on(record.id, by="ada").id)
        told = {result.item: result.outcome for result in jobs.results(again.id)}
        assert told[unknown.item] is Outcome.CONFIRMED
        assert again.counts.confirmed == 1
        assert bodies(await stored(shop)) == sorted(NUMBERS * 2)

    on_a_shop(test)


def test_a_refused_send_is_unchanged_and_a_problem() -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.bury(NUMBERS)
        shop.broker.faults.refuse("orders", times=3)
        record, results = await over(shop, jobs, NewJob(spec=Redrive(group="billing")))
        assert (record.counts.confirmed, record.counts.refused, record.counts.unknown) == (7, 3, 0)
        assert record.has_doubt
        assert "refused by a fault" in next(result.text for result in results if result.is_problem)

    on_a_shop(test)


@pytest.mark.parametrize(
    "code", [ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE]
)
def test_a_send_that_is_less_safe_than_demanded_is_confirmed_and_says_so(code: ResponseCode) -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.bury([b"1"])
        shop.broker.faults.refuse("orders", code)
        record, [result] = await over(shop, jobs, NewJob(spec=Redrive(group="billing")))
        assert (record.counts.confirmed, result.is_problem) == (1, False)
        assert result.text.startswith(f"sent; {code.name}")

    on_a_shop(test)


def test_a_job_pauses_by_itself_when_everything_is_refused() -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.bury([b"%d" % number for number in range(PROBLEMS_IN_A_ROW_MAX + 5)])
        shop.broker.faults.refuse("orders", times=None)
        job = jobs.start(NewJob(spec=Redrive(group="billing")), by="ada")
        record = await until(jobs, job.id, JobState.PAUSED)
        assert record.counts.attempted == PROBLEMS_IN_A_ROW_MAX
        assert record.note.startswith("by itself")
        shop.broker.faults.clear()
        jobs.ask(job.id, "resume")
        record = await jobs.wait(job.id)
        assert (record.counts.confirmed, record.counts.refused) == (5, PROBLEMS_IN_A_ROW_MAX)

    on_a_shop(test)


# --- canary, pause, cancel, rate -----------------------------------------------------------------------------------


def test_after_the_canary_the_job_waits_for_a_go() -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.bury(NUMBERS)
        job = jobs.start(NewJob(spec=Redrive(group="billing"), pace=Pace(canary=3)), by="ada")
        waiting = await until(jobs, job.id, JobState.CANARY)
        assert waiting.counts.confirmed == 3
        assert waiting.allowed() == ["go", "cancel"]
        await shop.broker.advance(hours=1)
        assert jobs.get(job.id).counts.confirmed == 3
        with pytest.raises(ConfigError, match="cannot resume"):
            jobs.ask(job.id, "resume")
        jobs.ask(job.id, "go")
        assert (await jobs.wait(job.id)).counts.confirmed == 10

    on_a_shop(test)


def test_what_a_cancelled_job_has_not_reached_is_listed_as_not_attempted() -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.bury(NUMBERS)
        job = jobs.start(NewJob(spec=Redrive(group="billing"), pace=Pace(canary=4)), by="ada")
        await until(jobs, job.id, JobState.CANARY)
        jobs.ask(job.id, "cancel")
        record = await jobs.wait(job.id)
        assert record.state is JobState.CANCELLED
        assert (record.counts.confirmed, record.counts.not_attempted) == (4, 6)
        assert len({result.item for result in jobs.results(record.id)}) == 10
        assert len(await stored(shop)) == 14
        with pytest.raises(ConfigError, match="any more"):
            jobs.ask(job.id, "cancel")

    on_a_shop(test)


def test_a_job_keeps_its_rate() -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.bury(NUMBERS)
        began_ms = shop.broker.now_ms()
        job = jobs.start(NewJob(spec=Redrive(group="billing"), pace=Pace(rate=2)), by="ada")
        await shop.broker.advance(ms=1_100)
        assert jobs.get(job.id).counts.confirmed == 3  # at 0, 500 and 1000 ms
        jobs.ask(job.id, "pause")
        await shop.broker.advance(minutes=5)
        assert jobs.get(job.id).counts.confirmed == 3
        jobs.ask(job.id, "resume")
        await shop.broker.advance(seconds=5)
        record = await jobs.wait(job.id)
        assert record.counts.confirmed == 10
        assert record.ended_ms - began_ms >= 300_000

    on_a_shop(test)


def test_a_slow_job_can_be_cancelled_between_two_items() -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.bury(NUMBERS)
        job = jobs.start(NewJob(spec=Redrive(group="billing"), pace=Pace(rate=0.001)), by="ada")
        while not jobs.get(job.id).counts.attempted:
            await shop.broker.settle()
        before_ms = shop.broker.now_ms()
        jobs.ask(job.id, "cancel")
        record = await jobs.wait(job.id)
        assert (record.counts.confirmed, record.counts.not_attempted) == (1, 9)
        assert record.ended_ms - before_ms < 1_000_000

    on_a_shop(test)


# --- the console ends in between -----------------------------------------------------------------------------------


def test_a_job_of_a_console_that_was_killed_is_interrupted_with_what_was_reached(tmp_path: Path) -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.bury(NUMBERS)
        job = jobs.start(NewJob(spec=Redrive(group="billing"), pace=Pace(canary=4)), by="ada")
        await until(jobs, job.id, JobState.CANARY)
        # a kill writes nothing: what the disk has now is what the next console finds, a torn line included
        with (tmp_path / job.id / "results.jsonl").open("ab") as file:
            file.write(b'{"begun":"the fifth"}\n{"item":"the fi')
        shutil.copytree(tmp_path, tmp_path.with_name("killed"))
        async with shop.jobs(tmp_path.with_name("killed")) as others:
            found = others.get(job.id)
            assert found.state is JobState.INTERRUPTED
            assert (found.counts.confirmed, found.counts.unknown) == (4, 1)
            assert [result.outcome for result in others.results(job.id)][-1] is Outcome.UNKNOWN
            again = others.go_on(job.id, by="grace")
            await until(others, again.id, JobState.CANARY)
            others.ask(again.id, "go")
            assert (await others.wait(again.id)).counts.confirmed == 6
        assert bodies(await stored(shop)) == sorted(NUMBERS * 2)

    on_a_shop(test, tmp_path)


def test_a_console_that_stops_interrupts_its_jobs_and_says_so(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_shop() as shop:
            await shop.bury(NUMBERS)
            async with shop.jobs(tmp_path) as jobs:
                job = jobs.start(NewJob(spec=Redrive(group="billing"), pace=Pace(canary=4)), by="ada")
                await until(jobs, job.id, JobState.CANARY)
            async with shop.jobs(tmp_path) as jobs:
                assert jobs.get(job.id).state is JobState.INTERRUPTED
                assert jobs.get(job.id).counts.confirmed == 4
                assert jobs.get(job.id).by == "ada"

    asyncio.run(test())


def test_books_of_one_folder_see_and_steer_jobs_of_each_other(tmp_path: Path) -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.bury(NUMBERS)
        job = jobs.start(NewJob(spec=Redrive(group="billing"), pace=Pace(canary=4)), by="ada")
        await until(jobs, job.id, JobState.CANARY)
        async with shop.jobs(tmp_path) as others:
            assert [(each.id, each.state) for each in others.all()] == [(job.id, JobState.CANARY)]
            with pytest.raises(ConfigError, match="goes on by itself"):
                others.go_on(job.id, by="grace")
            with pytest.raises(ConfigError, match="cannot pause"):
                others.ask(job.id, "pause")
            others.ask(job.id, "go")
            await shop.broker.advance(seconds=2)
            assert (await jobs.wait(job.id)).counts.confirmed == 10
            assert others.get(job.id).state is JobState.FINISHED
            second = others.start(NewJob(spec=Redrive(group="billing"), pace=Pace(canary=1)), by="grace")
            await others.wait(second.id)
            assert [each.by for each in jobs.all()] == ["grace", "ada"]

    on_a_shop(test, tmp_path)


def test_a_job_is_not_done_by_two_processes_at_once(tmp_path: Path) -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.bury(NUMBERS)
        job = jobs.start(NewJob(spec=Redrive(group="billing"), pace=Pace(canary=4)), by="ada")
        await until(jobs, job.id, JobState.CANARY)
        jobs.ask(job.id, "cancel")
        await jobs.wait(job.id)
        again = jobs.go_on(job.id, by="ada")
        async with shop.jobs(tmp_path) as others:
            with pytest.raises(JobBusyError):
                others.go_on(job.id, by="grace")
            await until(jobs, again.id, JobState.CANARY)
            jobs.ask(again.id, "go")
            assert (await jobs.wait(again.id)).counts.confirmed == 6
            others.go_on(job.id, by="grace")
        assert bodies(await stored(shop)) == sorted(NUMBERS * 2)

    on_a_shop(test, tmp_path)


def test_a_damaged_record_is_passed_over_and_the_other_jobs_are_there(tmp_path: Path) -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        first = await jobs.wait(jobs.start(NewJob(spec=Delete(what="topic", names=("t1",))), by="ada").id)
        second = await jobs.wait(jobs.start(NewJob(spec=Delete(what="topic", names=("t2",))), by="ada").id)
        for name in ("job.json", "job.json.bak"):
            (tmp_path / first.id / name).write_bytes(b"{")
        (tmp_path / "no job").mkdir()
        async with shop.jobs(tmp_path) as others:
            assert [record.id for record in others.all()] == [second.id]
            with pytest.raises(NoSuchJobError):
                others.get(first.id)

    on_a_shop(test, tmp_path)


def test_a_disk_that_takes_no_results_ends_the_job_before_it_does_what_cannot_be_told(tmp_path: Path) -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.bury(NUMBERS)
        job = jobs.start(NewJob(spec=Redrive(group="billing"), pace=Pace(canary=2)), by="ada")
        await until(jobs, job.id, JobState.CANARY)
        run = jobs.run_of(job.id)
        assert run is not None
        run._files.close()
        run._files._results = (tmp_path / job.id / "job.json").open("rb", buffering=0)  # cannot be written to
        jobs.ask(job.id, "go")
        record = await jobs.wait(job.id)
        assert record.state is JobState.FAILED
        assert "results cannot be written" in record.note
        assert record.counts.confirmed == 2
        assert len(await stored(shop)) == 12

    on_a_shop(test, tmp_path)


def test_the_servers_going_away_fails_the_job_and_what_follows_was_not_attempted() -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.send(*NUMBERS)
        await shop.admin.topics.create("copies", queues=1)
        shop.broker.faults.refuse("orders", requests="pull", times=None)
        record, results = await over(shop, jobs, NewJob(spec=CopyTopic(topic="orders", to_topic="copies")))
        assert record.state is JobState.FAILED
        assert "not attempted" in record.note
        assert results == []

    on_a_shop(test)


# --- copies --------------------------------------------------------------------------------------------------------


def test_a_copy_of_a_topic_has_its_messages_and_a_job_that_goes_on_makes_no_second_ones() -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.send(*NUMBERS, tags="new", keys="k1")
        await shop.admin.topics.create("copies", queues=3)
        shop.broker.faults.cut_connection("copies", done=True, skip=1)  # stored, and nobody hears of it
        shop.broker.faults.cut_connection("copies", skip=4)
        record, _ = await over(shop, jobs, NewJob(spec=CopyTopic(topic="orders", to_topic="copies")))
        assert (record.counts.confirmed, record.counts.unknown) == (9, 1)
        again = await jobs.wait(jobs.go_on(record.id, by="ada").id)
        assert (again.counts.confirmed, again.counts.unchanged) == (1, 9)
        copies = await stored(shop, "copies")
        assert bodies(copies) == NUMBERS
        assert {(message.tags, message.keys) for message in copies} == {("new", ("k1",))}

    on_a_shop(test)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_goes_wrong_jobs_that_go_on_send_each_message_once(seed: int) -> None:
    """Faults of all kinds, and job after job until nothing is in doubt: no copy is missing, and none is there twice
    but those whose doubt a broker itself left."""

    async def run() -> None:
        async with a_shop(seed) as shop, shop.jobs() as jobs:
            await shop.send(*[b"%d" % number for number in range(40)])
            await shop.admin.topics.create("copies", queues=2)
            kinds = ("lose response", "refuse", "cut", "cut when done")
            shop.broker.faults.random(0.3, kinds=kinds, topic="copies", requests="send")
            record = await jobs.wait(jobs.start(NewJob(spec=CopyTopic(topic="orders", to_topic="copies")), by="ada").id)
            assert record.counts.attempted == 40
            for _ in range(30):
                if not record.has_doubt:
                    break
                confirmed = {r.item for r in jobs.results(record.id) if r.outcome is Outcome.CONFIRMED}
                record = await jobs.wait(jobs.go_on(record.id, by="ada").id)
                again = {r.item for r in jobs.results(record.id) if r.outcome is Outcome.CONFIRMED}
                assert not confirmed & again, "what was confirmed is not sent again"
            assert not record.has_doubt
            assert sorted(bodies(await stored(shop, "copies"))) == sorted(b"%d" % number for number in range(40))
            shop.broker.assert_nothing_lost()

    asyncio.run(run())


def test_a_copy_takes_what_was_chosen_and_never_its_own_topic() -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.send(b"1", b"2", tags="a")
        await shop.send(b"3", b"4", b"5", tags="b")
        await shop.admin.topics.create("copies", queues=1)
        spec = CopyTopic(topic="orders", to_topic="copies", tag="b", count_max=2)
        record, _ = await over(shop, jobs, NewJob(spec=spec))
        assert record.counts.confirmed == 2
        record, _ = await over(shop, jobs, NewJob(spec=CopyTopic(topic="orders", to_topic="orders")))
        assert record.state is JobState.FAILED
        assert "itself" in record.note

    on_a_shop(test)


def test_messages_are_sent_again_to_one_group_alone() -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.bury([b"1"])  # which gives the group its retry topic
        [message] = await stored(shop)
        await shop.admin.topics.create("%RETRY%billing", queues=1)
        spec = Resend(messages=(message.offset_message_id, "no id", message.offset_message_id), to_group="billing")
        _, results = await over(shop, jobs, NewJob(spec=spec))
        assert [result.outcome for result in results] == [Outcome.CONFIRMED, Outcome.UNCHANGED]
        assert results[1].is_problem
        [copy] = await stored(shop, "%RETRY%billing")
        assert (copy.body, copy.topic) == (b"1", "orders")
        assert len(await stored(shop)) == 1

    on_a_shop(test)


# --- offsets -------------------------------------------------------------------------------------------------------


async def committed(shop: Shop, group: str = "billing") -> dict[int, int]:
    return {
        queue.number: held.consumer_offset for queue, held in (await shop.admin.groups.lag(group, "orders")).items()
    }


def moves_of(plan: list[object]) -> tuple[Move, ...]:
    return tuple(
        Move(topic=m.queue.topic, broker=m.queue.broker, queue=m.queue.number, old=m.old, new=m.new)  # type: ignore[attr-defined]
        for m in plan
    )


def test_a_reset_confirms_each_queue_by_reading_it_back_and_can_be_undone() -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.bury(NUMBERS)
        before = await committed(shop)
        plan = await shop.admin.offsets.plan_reset("billing", "orders", to_ms=0)
        record, results = await over(shop, jobs, NewJob(spec=ResetOffsets(group="billing", moves=moves_of([*plan]))))
        assert [result.outcome for result in results] == [Outcome.CONFIRMED] * 2
        assert set((await committed(shop)).values()) == {0}
        assert record.can_undo
        undone = await jobs.wait(jobs.undo(record.id, by="ada").id)
        assert (undone.counts.confirmed, undone.by) == (2, "ada")
        assert await committed(shop) == before

    on_a_shop(test)


def test_a_queue_that_moved_since_the_preview_is_left_alone() -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.bury(NUMBERS)
        plan = moves_of([*await shop.admin.offsets.plan_reset("billing", "orders", to_ms=0)])
        await shop.admin.offsets.reset(
            "billing", "orders", queue=(await shop.admin.offsets.plan_reset("billing", "orders"))[0].queue, offset=2
        )
        record, results = await over(shop, jobs, NewJob(spec=ResetOffsets(group="billing", moves=plan)))
        assert (record.counts.confirmed, record.counts.refused) == (1, 1)
        assert "left alone" in next(result.text for result in results if result.is_problem)
        spec = ResetOffsets(group="billing", moves=plan, is_forced=True)
        assert (await over(shop, jobs, NewJob(spec=spec)))[0].counts.confirmed == 1

    on_a_shop(test)


def test_a_reset_whose_response_is_lost_is_unknown() -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.bury(NUMBERS)
        plan = moves_of([*await shop.admin.offsets.plan_reset("billing", "orders", to_ms=0)])
        shop.broker.faults.cut_connection(requests=222, done=True)
        record, results = await over(shop, jobs, NewJob(spec=ResetOffsets(group="billing", moves=plan)))
        assert (record.counts.confirmed, record.counts.unknown) == (1, 1), results

    on_a_shop(test)


def test_a_reset_that_goes_on_leaves_confirmed_queues_alone() -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.bury(NUMBERS)
        plan = moves_of([*await shop.admin.offsets.plan_reset("billing", "orders", to_ms=0)])
        shop.broker.faults.cut_connection(requests=222, done=True)
        spec = ResetOffsets(group="billing", moves=plan, is_forced=True)
        record, results = await over(shop, jobs, NewJob(spec=spec))
        assert (record.counts.confirmed, record.counts.unknown) == (1, 1), results
        again = await jobs.wait(jobs.go_on(record.id, by="ada").id)
        confirmed = next(result.item for result in results if result.outcome is Outcome.CONFIRMED)
        assert confirmed not in [result.item for result in jobs.results(again.id)]
        assert isinstance(again.spec, ResetOffsets) and len(again.spec.moves) == 1

    on_a_shop(test)


def test_a_reset_that_somebody_undid_at_once_is_not_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The preview was made at one place, the queue stood further on when it was moved, and a member took it back."""

    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.bury(NUMBERS)
        plan = moves_of([*await shop.admin.offsets.plan_reset("billing", "orders", to_ms=0)])
        earlier = tuple(msgspec.structs.replace(move, old=0, new=1) for move in plan)

        async def lost(*_: object) -> None:
            """The broker took it, and a member committed what it had before."""

        monkeypatch.setattr(shop.admin.offsets, "carry_out", lost)
        spec = ResetOffsets(group="billing", moves=earlier, is_forced=True)
        _, results = await over(shop, jobs, NewJob(spec=spec))
        assert [result.outcome for result in results] == [Outcome.UNKNOWN] * 2

    on_a_shop(test)


def test_a_reset_of_a_broker_that_nobody_knows_connects_nowhere() -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        move = Move(topic="orders", broker="127.0.0.1:1", queue=0, old=None, new=0)
        await shop.admin.groups.create("billing")
        record, results = await over(shop, jobs, NewJob(spec=ResetOffsets(group="billing", moves=(move,))))
        assert record.state is JobState.FAILED and "know no broker" in record.note and results == []

    on_a_shop(test)


# --- deletions, bounds ---------------------------------------------------------------------------------------------


def test_deletions_tell_what_was_deleted_and_what_was_not_there() -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.admin.topics.create("old", queues=1)
        await shop.admin.groups.create("gone")
        record, results = await over(shop, jobs, NewJob(spec=Delete(what="topic", names=("old", "never", "old"))))
        assert [(result.item, result.outcome) for result in results] == [
            ("old", Outcome.CONFIRMED),
            ("never", Outcome.UNCHANGED),
        ]
        record, _ = await over(shop, jobs, NewJob(spec=Delete(what="group", names=("gone",))))
        assert record.counts.confirmed == 1
        assert "gone" not in await shop.admin.groups.names()

    on_a_shop(test)


def test_a_deletion_that_one_broker_refused_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.admin.topics.create("old", queues=1)

        async def refuse(name: str) -> None:
            raise ConnectFailedError("one of two brokers is away")

        monkeypatch.setattr(shop.admin.topics, "delete", refuse)
        _, (result,) = await over(shop, jobs, NewJob(spec=Delete(what="topic", names=("old",))))
        assert result.outcome is Outcome.UNKNOWN and "other brokers may have" in result.text

    on_a_shop(test)


def test_so_many_jobs_at_once_and_no_more() -> None:
    async def test(shop: Shop, jobs: Jobs) -> None:
        await shop.bury(NUMBERS)
        new = NewJob(spec=Redrive(group="billing"), pace=Pace(canary=1))
        running = [jobs.start(new, by="ada") for _ in range(RUNNING_MAX)]
        with pytest.raises(TooManyJobsError):
            jobs.start(new, by="ada")
        for job in running:
            if jobs.run_of(job.id) is not None:
                jobs.ask(job.id, "cancel")
            await jobs.wait(job.id)
        assert len(jobs.all()) == RUNNING_MAX

    on_a_shop(test)


def test_old_jobs_make_room_for_new_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyromq.operate.jobs.book.KEPT_MAX", 3)
    assert KEPT_MAX > 3

    async def test(shop: Shop, jobs: Jobs) -> None:
        for number in range(5):
            await jobs.wait(jobs.start(NewJob(spec=Delete(what="topic", names=(f"t{number}",))), by="ada").id)
        assert len(jobs.all()) == 3

    on_a_shop(test, tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
