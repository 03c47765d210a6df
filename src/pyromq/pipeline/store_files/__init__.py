"""Reading store folders without a broker: commit log files cut into stretches, and their records as rows.

``spark`` and everything above may come in. Here only ``core``, ``arrow`` and Spark's reader class are imported, and of
``pyromq.store`` its file names alone.
"""
