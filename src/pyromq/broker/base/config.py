"""Configuration in RocketMQ's words for its tools: all settings told, some of them changed while the broker runs.

Changes live as long as the process: the configuration file and the command line stay what they are.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from pyromq.broker.base.config_keys import CHANGEABLE, KEYS
from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.base.settings import BrokerSettings
from pyromq.errors import ConfigError
from pyromq.setting_keys import parse_lines
from pyromq.store.settings import StoreSettings
from pyromq.wire.codes import ResponseCode


def describe(settings: BrokerSettings, host: str, port: int) -> dict[str, str]:
    """All settings that have a name in RocketMQ, in the order of their names; nothing secret, no paths."""
    values = {name: key.text_of(settings) for name, key in KEYS.items()}
    values |= {
        "brokerIP1": host,
        "brokerRole": values["brokerRole"].replace("ALONE", "ASYNC_MASTER"),  # what tools take it for
        "listenPort": str(port),
        "maxMsgsNumBatch": "64",
    }
    return dict(sorted(values.items()))


def parse_changes(text: bytes) -> dict[str, str]:
    """Lines ``key=value``; raises ConfigError for anything else, RefusedError for keys that cannot be changed."""
    changes = dict(parse_lines(text))
    for name in changes:
        if name not in CHANGEABLE:
            may = ", ".join(CHANGEABLE)
            remark = f"{name[:80]} is unknown or cannot be changed while the broker runs; these can: {may}"
            raise RefusedError(ResponseCode.NO_PERMISSION, remark)
    return changes


def changed(settings: BrokerSettings, changes: dict[str, str]) -> BrokerSettings:
    """The settings with changes applied, all of them checked; raises ConfigError, and then nothing has changed."""
    of_broker: dict[str, Any] = {}
    of_store: dict[str, Any] = {}
    for name, value in changes.items():
        key = CHANGEABLE[name]
        folder, _, attribute = key.field.rpartition(".")
        try:
            (of_store if folder else of_broker)[attribute] = key.parse(value)
        except ConfigError as error:
            raise ConfigError(f"{name}: {error}") from error
    store: StoreSettings = replace(settings.store, **of_store)
    return replace(settings, store=store, **of_broker)


def adopt(settings: BrokerSettings, new: BrokerSettings) -> None:
    """Give the settings that all parts of the broker share the new values."""
    for each in fields(BrokerSettings):
        setattr(settings, each.name, getattr(new, each.name))
