"""``run`` (a pipeline that a file describes) and ``dedupe`` (one that is ready-made).

Owns: the format of pipeline files, and the checkpoint folder of each sink.
Callers: ``pyromq.pipeline.jobs``. Imports: ``common``, and the pipeline below.
"""
