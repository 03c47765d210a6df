"""Bodies as typed columns: JSON, text, Avro, MessagePack and Protobuf to Arrow and back, by the schema of a topic.

Owns: decoding and encoding bodies in batches, and what becomes of rows that cannot be decoded.
Callers: ``spark``, ``store_files``, ``sink``. Imports: ``typed.schemas``, ``arrow``, ``core``, never Spark.
"""
