"""Who signs requests in simulations with access control: root for agents and operators, one user for all clients."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from unittest.mock import patch

from pyromq.security.secret import Secret
from pyromq.security.settings import AccessSettings
from pyromq.settings import Credentials

ROOT: Final = Credentials("root", "root-of-the-simulation")
CLIENTS: Final = Credentials("clients", "clients-of-the-simulation")
ACCESS: Final = AccessSettings(
    enabled=True,
    initial_user=Secret('{"username":"root","password":"root-of-the-simulation"}'),
    inner_credentials=Secret('{"accessKey":"inner","secretKey":"inner-of-the-simulation"}'),
)
GUESTS_TOPIC: Final = "guests"


@contextmanager
def signed_by_root(has_access: bool) -> Iterator[None]:
    """Agents, operators and all others that are given no credentials of their own."""
    keys = {"PYROMQ_ACCESS_KEY": ROOT.access_key, "PYROMQ_SECRET_KEY": ROOT.secret_key} if has_access else {}
    with patch.dict(os.environ, keys):
        yield
