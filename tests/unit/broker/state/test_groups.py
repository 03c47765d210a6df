from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.state.groups import PRESET_GROUPS
from pyromq.errors import InvalidNameError, StoreReadOnlyError
from pyromq.model.topic import GroupConfig
from pyromq.testing import FaultyDisk
from pyromq.wire.codes import ResponseCode
from tests.unit.broker.builders import groups


def test_a_group_is_created_when_somebody_uses_it() -> None:
    disk = FaultyDisk()
    found = groups(disk=disk)
    assert found.find("readers") == GroupConfig(group_name="readers")
    assert found.table.unsaved and groups(disk=disk.after_crash()).table.get("readers") is None, "saved soon after"
    with pytest.raises(InvalidNameError):
        found.find("read ers")


def test_without_automatic_creation_an_unknown_group_is_refused() -> None:
    found = groups(BrokerSettings(auto_create_groups=False))
    assert found.find("readers") is None
    with pytest.raises(RefusedError) as refused:
        found.require("readers")
    assert refused.value.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    found.update(GroupConfig(group_name="readers", retry_max_times=3))
    assert found.require("readers").retry_max_times == 3


def test_every_broker_has_its_preset_groups_and_keeps_what_an_operator_made_of_them() -> None:
    found = groups()
    found.update(GroupConfig(group_name=PRESET_GROUPS[0], consume_enable=False))
    found.create_preset_groups()
    assert {name for name, _ in found.items()} == set(PRESET_GROUPS)
    assert not found.require(PRESET_GROUPS[0]).consume_enable


def test_a_change_without_effect_leaves_the_version_alone() -> None:
    found = groups()
    found.find("readers")
    version = found.table.version
    found.update(GroupConfig(group_name="readers"))
    assert found.table.version == version
    assert found.delete("readers") and not found.delete("readers")
    assert found.table.version.counter == version.counter + 1


def test_a_group_may_be_kept_from_single_topics() -> None:
    found = groups()
    found.allow_read("readers", "orders", False)
    assert not found.may_read("readers", "orders")
    assert found.may_read("readers", "payments") and found.may_read("others", "orders")
    found.allow_read("readers", "orders", True)
    assert found.may_read("readers", "orders")


def test_a_change_that_the_disk_refuses_did_not_happen() -> None:
    disk = FaultyDisk()
    found = groups(disk=disk)

    def refused(change: Callable[[], object]) -> None:
        disk.fail_at(disk.operations + 1, errno.ENOSPC)
        with pytest.raises(StoreReadOnlyError):
            change()

    refused(lambda: found.update(GroupConfig(group_name="readers")))
    assert found.table.get("readers") is None
    found.find("readers")
    refused(lambda: found.update(GroupConfig(group_name="readers", retry_max_times=1)))
    refused(lambda: found.delete("readers"))
    refused(lambda: found.allow_read("readers", "orders", False))
    assert found.table.get("readers") == GroupConfig(group_name="readers") and found.may_read("readers", "orders")
