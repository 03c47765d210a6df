"""What every room of the pipeline shares: options, offsets, errors, open clients, files beside a checkpoint.

Every room may come in. Here only ``pyromq.client``, ``wire`` and ``model`` are imported, and never Spark.
"""
