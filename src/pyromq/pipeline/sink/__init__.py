"""The sink: rows to messages, each acknowledged; modes append, idempotent and transactional.

Owns: what a repeated batch does, unique keys of rows, decisions about transactional batches.
Callers: ``spark.source``, ``jobs``. Imports: ``reading``, ``arrow``, ``core``.
"""
