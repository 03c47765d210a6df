"""The broker: answers clients from the store and from what it knows about them.

Rooms, lower ones first; none imports a higher one:
    base ─▶ state ─▶ commit ─▶ delays ─▶ sending, pulling ─▶ transactions ─▶ admin ─▶ wiring, broker
``wiring`` puts the parts together, ``broker`` gives them life and requests, ``request_table`` maps request codes.
"""
