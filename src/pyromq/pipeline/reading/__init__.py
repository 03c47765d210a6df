"""Reading topics: which offsets a batch reads (pure), what brokers are asked on the driver, what workers pull.

``sink``, ``spark`` and everything above may come in. Here only ``core``, ``arrow`` and ``pyromq.client`` are imported,
and never Spark.
"""
