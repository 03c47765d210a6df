"""Store folders read without a broker, ours and Apache RocketMQ's.

Owns: how commit log files are shared out to tasks. ``log`` is the one module of the pipeline that knows the store.
Callers: ``spark.source``. Imports: ``arrow``, ``core``.
"""
