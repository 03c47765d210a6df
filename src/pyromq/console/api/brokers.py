"""A broker: what it is doing, its settings, its store."""

from __future__ import annotations

import msgspec

from pyromq.console.views.brokers import FactGroup, in_words, require_broker
from pyromq.console.views.cluster import cluster_view
from pyromq.console.views.hot_settings import HOT, Change, HotSetting, changes_of
from pyromq.console.views.stores import StoreView, read_store
from pyromq.console.web.api import Api, Call
from pyromq.errors import NotFoundError
from pyromq.wire.codes import ResponseCode

functions = Api("brokers")


class BrokerPath(msgspec.Struct, frozen=True, kw_only=True):
    broker: str


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    groups: list[FactGroup]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """``changeable`` are those that may be changed while the broker runs."""

    settings: dict[str, str]
    changeable: list[HotSetting]


class SettingChanges(msgspec.Struct, frozen=True, kw_only=True):
    """``preview``: say what would change, and leave it."""

    settings: dict[str, str]
    preview: bool = False


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    changes: list[Change]
    is_done: bool


@functions.get("/brokers/{broker}/runtime", summary="Run-time information of a broker, in words")
async def runtime(call: Call, path: BrokerPath) -> Runtime:
    await require_broker(call.desk, path.broker)
    told = await call.desk.admin.brokers.runtime(path.broker)
    return Runtime(groups=in_words(told, call.desk.clock.now_ms()))


@functions.get("/brokers/{broker}/settings", summary="Settings of a broker")
async def settings(call: Call, path: BrokerPath) -> Settings:
    await require_broker(call.desk, path.broker)
    config = await call.desk.admin.brokers.config(path.broker)
    return Settings(settings=config, changeable=[each for key, each in sorted(HOT.items()) if key in config])


@functions.patch("/brokers/{broker}/settings", summary="Change settings of a running broker, or preview it")
async def change(call: Call, path: BrokerPath, body: SettingChanges) -> Changes:
    await require_broker(call.desk, path.broker)
    changes = changes_of(await call.desk.admin.brokers.config(path.broker), body.settings)
    if not body.preview:
        await call.desk.admin.brokers.update_config(path.broker, {each.key: each.after for each in changes})
    return Changes(changes=changes, is_done=not body.preview)


@functions.get("/brokers/{broker}/store", summary="Segments, disk, retention and last recovery of a broker's store")
async def store(call: Call, path: BrokerPath) -> StoreView:
    seen = (await cluster_view(call.desk)).brokers
    masters = [each for each in seen if each.number == 0 and each.broker == path.broker]
    if not masters:
        raise NotFoundError(
            code=ResponseCode.BROKER_NOT_EXIST, remark=f"name servers know no broker {path.broker[:80]}"
        )
    return await read_store(call.desk, masters[0])
