"""Resend: stored messages sent again, by one engine for every face.

    stored message ──▶ outgoing: id, cleaned properties, target ──▶ engine: look, send, verify ──▶ ItemOutcome

``pyromq dlq redrive``, ``pyromq message resend``, jobs of the console, Spark's ``redrive`` and ``replay`` choose
messages and pace them (``pacing``); ids follow from the message alone, so each face finds what another one sent.
"""
