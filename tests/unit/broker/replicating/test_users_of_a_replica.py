"""Whose users a replica has, before it has heard anything of its master."""

from __future__ import annotations

from random import Random
from typing import Any, cast

import pytest

from pyromq.broker.base.environment import Environment
from pyromq.broker.base.lease import Lease
from pyromq.broker.base.settings import BrokerSettings
from pyromq.broker.replicating.metadata import MetadataSync
from pyromq.security.secret import Secret
from pyromq.security.settings import AccessSettings
from pyromq.testing import FaultyDisk, ManualClock

INNER = AccessSettings(enabled=True, inner_credentials=Secret('{"accessKey":"inner","secretKey":"of servers"}'))


@pytest.mark.parametrize(
    ("access", "lease", "are_the_masters"),
    [
        pytest.param(INNER, Lease(), True, id="under an agent: whoever is master now has them"),
        pytest.param(INNER, None, False, id="alone with its master, which may be Apache's"),
        pytest.param(AccessSettings(), Lease(), False, id="without credentials of servers users are not handed over"),
    ],
)
def test_users_of_a_set_belong_to_its_master_from_the_first_moment(
    access: AccessSettings, lease: Lease | None, are_the_masters: bool
) -> None:
    settings = BrokerSettings(port=0, access=access)
    around = Environment(settings=settings, clock=ManualClock(), disk=FaultyDisk(), rng=Random(0), lease=lease)
    nobody = cast(Any, None)
    replica = MetadataSync(around, nobody, nobody, nobody, nobody, nobody, nobody)
    assert replica.has_masters_users is are_the_masters
