"""Dispatch: the way of a request to the function that answers it, from any front door.

Answer another request code: write a handler, add its row to ``request_table`` (``immediate`` for one that returns its
response, ``deferred`` for one that sends it itself, now or later), its right to ``security.rights``, and its header to
``wire.headers``. Quotas, audit, roles and access control come with the table: nothing else has to know the code.

Call handlers from another protocol: make a ``Caller`` for each client of it, and ask with its ``call``:

    caller = broker.dispatcher.new_caller(remote, new_session(remote), on_request)
    response = await caller.call(RequestCode.SEND_MESSAGE_V2, SendHeader(…), body)      # typed headers go in and out
    caller.close()                                                                      # when the client is gone

The response is the one that a remoting client would get, also one that leaves later: after the fsync, after replicas,
at the end of a long poll. ``on_request`` gets what the broker asks of the client. A front door that verifies users
itself says who it is with ``Session.principal``; rights, quotas and audit are then those of that user. A change of role
closes callers, as it closes connections. Imports ``base`` only.
"""
