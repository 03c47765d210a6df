"""Stored records to Arrow: the layout of records, their properties and columns, decoded without an object per message.

``reading``, ``sink``, ``store_files`` and everything above may come in. Here only ``core``, ``pyromq.wire`` and
``model`` are imported, and never Spark.
"""
