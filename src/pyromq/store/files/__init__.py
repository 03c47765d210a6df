"""Files: disk access that tests can make fail, segments, index files, checkpoint, folder layout, disk health.

Owns: bytes of single files. The rooms above say what the bytes mean.
Callers: all of ``store``. Imports: no other room.
"""
