"""The broker: answers clients from the store and from what it knows about them.

Rooms, lower ones first; none imports a higher one:
    base ─▶ dispatching ─▶ state, commit ─▶ delays ─▶ sending, pulling ─▶ transactions ─▶ admin ─▶ wiring, broker
``wiring`` puts the parts together, ``tenure`` gives them life for the time of one role, ``dispatching`` brings requests
to them, ``request_table`` maps request codes. How to answer another request, or to serve another protocol, is in
``dispatching``.
"""
