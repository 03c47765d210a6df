"""Planned ranges: where a read starts and ends, how it is cut into partitions, how a worker pulls them.

Owns: the promise that a planned range is read again as the same rows.
Callers: ``sink`` (recognising repeated batches), ``spark``, ``jobs``. Imports: ``arrow``, ``core``, never Spark.
"""
