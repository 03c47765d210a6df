"""What is tested here is there twice: in Python and in the compiled core."""

from tests.running.modes import pytest_itemcollected

__all__ = ["pytest_itemcollected"]
