"""Fixtures of several test modules here."""

from tests.integration.both_loops import run

__all__ = ["run"]
