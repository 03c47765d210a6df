"""``archive`` and ``compact``: topics to Parquet by topic, date and hour, each message exactly once.

Owns: the files of an archive, and the commit that makes a batch part of it.
Callers: ``pyromq.pipeline.jobs``. Imports: ``common``, and the pipeline below.
"""
