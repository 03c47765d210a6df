"""The ledger of a long run finds what is planted: lost, late, doubled and disordered messages, in bounded memory."""

from __future__ import annotations

from tests.soak.book import DeliveryBook, OrderBook

EXPECTED = {"plain": ("billing", "reports"), "ordered": ("ledgers",)}


class Moments:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def book_and_clock() -> tuple[DeliveryBook, Moments]:
    clock = Moments()
    return DeliveryBook(EXPECTED, timed=("reports",), now_s=clock, late_s=300, window_s=900), clock


def test_a_message_that_one_group_never_gets_is_outstanding_for_it() -> None:
    book, clock = book_and_clock()
    book.acknowledge("plain", "a")
    assert book.deliver("billing", "a")
    clock.now_s += 10
    assert [(each.group, each.message_id, each.age_s) for each in book.outstanding()] == [("reports", "a", 10.0)]
    assert book.deliver("reports", "a")
    assert not book.outstanding() and list(book.waits_s) == [10.0]


def test_a_delivery_may_come_before_the_acknowledgement() -> None:
    book, _ = book_and_clock()
    assert book.deliver("ledgers", "b")
    book.acknowledge("ordered", "b")
    assert not book.outstanding() and book.delivered["ledgers"] == 1


def test_dead_letters_are_not_waited_for_and_count_once() -> None:
    book, _ = book_and_clock()
    book.acknowledge("plain", "a")
    book.deliver("reports", "a")
    assert book.bury("billing", "a") and not book.bury("billing", "a")
    assert not book.outstanding() and book.dead["billing"] == 1 and not book.duplicates


def test_a_second_delivery_is_a_duplicate() -> None:
    book, _ = book_and_clock()
    book.acknowledge("ordered", "a")
    assert book.deliver("ledgers", "a") and not book.deliver("ledgers", "a")
    assert book.duplicates["ledgers"] == 1 and book.delivered["ledgers"] == 1


def test_what_is_late_is_named_once_and_stays_outstanding_until_it_comes() -> None:
    book, clock = book_and_clock()
    book.acknowledge("ordered", "a")
    clock.now_s += 299
    assert not book.newly_late()
    clock.now_s += 1
    assert [str(each) for each in book.newly_late()] == ["ordered a for ledgers, acknowledged 300 s ago"]
    assert not book.newly_late() and book.late == 1
    clock.now_s += 10_000
    book.forget()
    assert len(book.outstanding()) == 1, "what is lost is never forgotten"


def test_memory_is_that_of_the_window() -> None:
    book, clock = book_and_clock()
    for number in range(5_000):
        clock.now_s += 1
        book.acknowledge("ordered", f"{number}")
        book.deliver("ledgers", f"{number}")
        book.forget()
    assert book.acknowledged["ordered"] == 5_000
    assert book.remembered <= 901


def test_an_acknowledged_message_after_a_later_one_is_out_of_order() -> None:
    order = OrderBook()
    for number in (0, 1, 3, 2, 4):
        order.deliver("lane", number, f"id-{number}")
    assert order.judge({"id-2"}.__contains__) == ["lane: 2 after 3"]
    assert order.judge({"id-2"}.__contains__) == [], "once"


def test_repeated_deliveries_and_unacknowledged_messages_have_no_order() -> None:
    order = OrderBook()
    for number in (0, 1, 0, 1, 5, 3):
        order.deliver("lane", number, f"id-{number}")
    order.deliver("other", 0, "other-0")
    assert order.judge(lambda message_id: message_id != "id-3") == []
