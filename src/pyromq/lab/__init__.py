"""Trying things with real messages, and leaving them as they are: a notebook's or a test's tools.

    from pyromq import lab

    run = lab.replay("orders", key="42", since="2h ago").run(bill)
    run.failed          # messages that bill failed with, and how
    run.compare(bill_v2).changed

``replay`` reads messages as an operator's lookup does: nothing is acknowledged, no offset moves, nothing is sent.
"""

from __future__ import annotations

from pyromq.lab.outcomes import OutcomeKind, ReplayOutcome
from pyromq.lab.replays import Replay, replay
from pyromq.lab.reports import HandlerComparison, ReplayReport

__all__ = ["HandlerComparison", "OutcomeKind", "Replay", "ReplayOutcome", "ReplayReport", "replay"]
