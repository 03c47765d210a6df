"""For ``conftest.py`` of folders whose subject exists twice, in Python and in the compiled core: both are tested.

    from tests.running.modes import pytest_itemcollected

A single module or test elsewhere says it with ``@pytest.mark.both_modes``.
"""

from __future__ import annotations

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Called for what lies below the folder of the conftest."""
    item.add_marker(pytest.mark.both_modes)
