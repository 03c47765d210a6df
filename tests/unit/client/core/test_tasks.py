"""Tasks and their owner."""

from __future__ import annotations

import asyncio

import pytest

from pyromq.client.core.tasks import TaskOwner
from pyromq.errors import ClientClosedError


def test_tasks_end_with_their_owner() -> None:
    async def main() -> None:
        owner = TaskOwner("owner")
        task = owner.start(asyncio.Event().wait())
        await owner.close()
        assert task.cancelled() and not len(owner)
        with pytest.raises(ClientClosedError, match="owner was closed"):
            owner.start(asyncio.Event().wait())

    asyncio.run(main())
