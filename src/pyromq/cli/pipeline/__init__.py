"""``pyromq pipeline``: jobs on Spark, checked before Spark is started, with a bar and a summary.

Owns: options and tables of the jobs.
Callers: ``main``. Imports: ``connection``, ``output``, ``pyromq.pipeline.jobs``.
"""
