"""``replay`` and ``redrive``: messages sent again, at a set rate, with a word on each.

Owns: the ids under which a message is sent again, pacing, the canary.
Callers: ``pyromq.pipeline.jobs``. Imports: ``common``, and the pipeline below.
"""
