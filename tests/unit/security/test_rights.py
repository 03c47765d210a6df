"""The table of rights has a row for everything that is answered."""

from __future__ import annotations

import pytest

from pyromq.clock import SystemClock
from pyromq.nameserver import service
from pyromq.nameserver.service import NameServerService
from pyromq.nameserver.settings import NameServerSettings
from pyromq.security.errors import MissingRightsError
from pyromq.security.resources import Action, ResourceType
from pyromq.security.rights import BROKER_RIGHTS, NAMESERVER_RIGHTS, check_rights
from pyromq.security.templates import Template, template_entries
from pyromq.wire.codes import RequestCode as Code
from tests.hostile.every_request import served_codes

WITHOUT_RULE_IN_550 = (
    *(25, 26, 28, 43, 45, 46, 60, 61, 106, 200, 206, 225, 304, 305, 306, 311, 312, 313, 316, 318, 319, 324, 325, 329),
    *(361, 400, 401, 402, 513, 907, 1005, 1006, 1007, 1009, 1010, 2001, 2002, 2003, 2004, 5001, 200056, 200070),
    *(200071, 200074, 200075, 200076, 200077, 200078, 200079, 200151),
)
"""Codes that Apache RocketMQ 5.5.0 answers without asking for a right."""


def test_every_request_that_is_answered_has_a_row() -> None:
    check_rights(BROKER_RIGHTS, served_codes(), "broker")
    check_rights(NAMESERVER_RIGHTS, service._HANDLES, "name server")


def test_no_row_is_for_a_request_that_nobody_answers() -> None:
    assert set(BROKER_RIGHTS) == set(served_codes())
    assert set(NAMESERVER_RIGHTS) == set(service._HANDLES)


def test_a_server_with_a_request_without_row_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingRightsError, match="has no row for: 4242, 4243"):
        check_rights(BROKER_RIGHTS, (10, 4243, 4242), "broker")
    monkeypatch.setitem(service._HANDLES, 4242, lambda *_: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(MissingRightsError, match="the name server answers requests"):
        NameServerService(NameServerSettings(), clock=SystemClock())


@pytest.mark.parametrize("code", WITHOUT_RULE_IN_550)
def test_what_apache_answers_without_a_rule_has_one_here_or_is_not_answered(code: int) -> None:
    for rights, answered in ((BROKER_RIGHTS, served_codes()), (NAMESERVER_RIGHTS, list(service._HANDLES))):
        if code in answered:
            row = rights[code]
            assert row.clauses, "the row asks for something"
            assert not row.is_open or row.by_object or code == Code.CHECK_CLIENT_CONFIG


def test_rows_without_a_named_resource_are_few_and_known() -> None:
    is_open = {code for rights in (BROKER_RIGHTS, NAMESERVER_RIGHTS) for code, row in rights.items() if row.is_open}
    assert is_open == {
        Code.END_TRANSACTION,
        Code.VIEW_MESSAGE_BY_ID,
        Code.RESUME_CHECK_HALF_MESSAGE,
        Code.HEART_BEAT,
        Code.UNREGISTER_CLIENT,
        Code.AWAIT_QUEUE_RANGES,
        Code.CHECK_CLIENT_CONFIG,
        Code.GET_ROUTEINFO_BY_TOPIC,
    }
    for code in (Code.END_TRANSACTION, Code.VIEW_MESSAGE_BY_ID, Code.RESUME_CHECK_HALF_MESSAGE):
        assert BROKER_RIGHTS[code].by_object


def test_what_changes_a_server_needs_more_than_reading() -> None:
    for code in (Code.UPDATE_BROKER_CONFIG, Code.DELETE_EXPIRED_COMMITLOG, Code.CLEAN_UNUSED_TOPIC):
        (clause,) = BROKER_RIGHTS[code].clauses
        assert (clause.type, clause.actions) == (ResourceType.CLUSTER, (Action.UPDATE,))
    for code in (Code.UPDATE_NAMESRV_CONFIG, Code.PUT_KV_CONFIG, Code.DELETE_KV_CONFIG, Code.WIPE_WRITE_PERM_OF_BROKER):
        (clause,) = NAMESERVER_RIGHTS[code].clauses
        assert (clause.type, clause.actions) == (ResourceType.CLUSTER, (Action.UPDATE,))


def test_templates_that_send_or_consume_may_trace() -> None:
    for template in (Template.PRODUCER, Template.CONSUMER, Template.PIPELINE):
        entries = template_entries(template, ["orders"], ["billing"])
        assert [each for each in entries if each.resource == "Topic:RMQ_SYS_TRACE_TOPIC" and each.actions == ("Pub",)]
    reading = template_entries(Template.READ_ONLY)
    assert {action for each in reading for action in each.actions or ()} == {"Get", "List"}
