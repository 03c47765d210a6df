"""Stored bytes to Arrow: layout of records with numpy, properties, columns, record batches.

Owns: the columns of the source. Pure; works on any buffer of stored records.
Callers: ``reading``, ``sink``, ``store_files``, ``consuming``. Imports: ``core``, never Spark.
"""
