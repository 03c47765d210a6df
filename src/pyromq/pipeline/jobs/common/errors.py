"""Errors of jobs; their texts say what to do."""

from __future__ import annotations

from pyromq.errors import ConfigError, MQError


class JobFailedError(MQError):
    """Spark ended the job; the text is the cause, without the stacks of two languages around it."""


class ArchiveError(MQError):
    """An archive folder that cannot be used as it is."""


class FormatMissingError(ConfigError):
    """A table format whose package Spark does not have."""


class TooLargeForMemoryError(ConfigError):
    """More messages than a job without Spark keeps in memory."""


class PipelineFileError(ConfigError):
    """A description of a pipeline that cannot be run; ``where`` is the place in the file, of the first mistake.

    Its text has a line for each of them.
    """

    def __init__(self, where: str, reason: str, *more: tuple[str, str]) -> None:
        self.where = where
        self.reason = reason
        self.mistakes = ((where, reason), *more)
        super().__init__("\n".join(f"{place}: {why}" for place, why in self.mistakes))
