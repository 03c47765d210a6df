"""The consumer groups of a broker as they are configured; their connected clients are in ``members``."""

from __future__ import annotations

from collections.abc import Callable, Collection, ItemsView, Iterable
from functools import partial

from pyromq.broker.base.refusals import RefusedError
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.base.system_names import refuse_change
from pyromq.clock import Clock
from pyromq.model.names import validate_group
from pyromq.model.system_names import PRESET_GROUPS
from pyromq.model.topic import GroupConfig, Perm
from pyromq.store.tables.groups import GroupTable
from pyromq.store.tables.steps import InSteps, all_steps
from pyromq.wire.codes import ResponseCode

_READ = int(Perm.READ)


class Groups:
    """Owns the group table. What an operator changes is saved first; what consumers bring about, soon after."""

    def __init__(self, table: GroupTable, settings: BrokerSettings, clock: Clock) -> None:
        self._table = table
        self._settings = settings
        self._clock = clock
        self.claim: Callable[[Collection[str]], None] = lambda names: None  # before a client makes these; may refuse

    @property
    def table(self) -> GroupTable:
        return self._table

    def items(self) -> ItemsView[str, GroupConfig]:
        return self._table.items()

    def create_preset_groups(self) -> None:
        missing = [name for name in PRESET_GROUPS if self._table.get(name) is None]
        for name in missing:
            self._table.put(GroupConfig(group_name=name), self._clock.now_ms())
        if missing:
            self._table.save()

    def find(self, group: str) -> GroupConfig | None:
        """The group, created if that is allowed; None when it does not exist and may not be created."""
        config = self._table.get(group)
        if config is None and self._settings.auto_create_groups:
            config = GroupConfig(group_name=validate_group(group))
            refuse_change(group=group)
            self._refuse_beyond(1)
            self.claim([group])
            self._table.put(config, self._clock.now_ms())
        return config

    def require(self, group: str) -> GroupConfig:
        """Find a group, or refuse the request."""
        return self._or_refuse(group, self.find(group))

    def require_known(self, group: str) -> GroupConfig:
        """The group if it exists, or a refusal: tools do not make groups by asking for them."""
        return self._or_refuse(group, self._table.get(group))

    def _or_refuse(self, group: str, config: GroupConfig | None) -> GroupConfig:
        if config is None:
            text = f"subscription group {group} does not exist on broker {self._settings.name}; create it first"
            raise RefusedError(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, text)
        return config

    def update(self, config: GroupConfig) -> GroupConfig:
        """Update one group; see ``update_all``."""
        self.update_all([config])
        return config

    def update_all(self, configs: Iterable[GroupConfig]) -> None:
        """``update_in_steps``, all of them now."""
        all_steps(self.update_in_steps(configs))

    def update_in_steps(self, configs: Iterable[GroupConfig]) -> InSteps[None]:
        """Create or replace, all or none, with one save; at the end they are durable.

        Raises RefusedError when there would be too many, StoreReadOnlyError.
        """
        missing = self._table.missing(configs)
        if not missing and self._table.is_durable:
            return
        if added := [name for name in missing if self._table.get(name) is None]:
            self._refuse_beyond(len(added))
            self.claim(added)
        yield from self._table.put_all(missing, self._clock.now_ms())

    def _refuse_beyond(self, added: int) -> None:
        if len(self._table) + added > self._settings.groups_max:
            limit = f"at most {self._settings.groups_max} groups (setting groups_max)"
            text = f"broker {self._settings.name} keeps {limit}: delete some, or use another broker"
            raise RefusedError(ResponseCode.INVALID_PARAMETER, text)

    def delete(self, group: str) -> bool:
        now_ms = self._clock.now_ms()
        removed = self._table.remove(group, now_ms)
        if removed is not None:
            self._table.save_or_undo(partial(self._table.put, removed, now_ms))
        return removed is not None

    def may_read(self, group: str, topic: str) -> bool:
        return not self._table.forbidden(group, topic) & _READ

    def allow_read(self, group: str, topic: str, readable: bool) -> None:
        perm, now_ms = self._table.forbidden(group, topic), self._clock.now_ms()
        self._table.forbid(group, topic, perm & ~_READ if readable else perm | _READ, now_ms)
        self._table.save_or_undo(partial(self._table.forbid, group, topic, perm, now_ms))
