"""A consumer group whose work is done by Spark: rows to a handler, each done, retried or dead.

Owns: the verdict on each row, and sending rows back.
Callers: users, ``jobs.reporting``. Imports: ``spark``, ``arrow``, ``core``.
"""
