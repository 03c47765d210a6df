"""``pyromq pipeline``: the jobs of ``pyromq.pipeline.jobs`` as commands.

``commands`` reads options and calls jobs, ``checks`` asks the cluster before Spark is started, ``session`` starts Spark
quietly, ``tables`` shows summaries. Spark is imported when a job runs. ``sql`` is ``pyromq sql``, which needs no Spark.
"""
