"""gRPC calls over HTTP/2: connections with flow control and limits, and the server that makes them.

    bytes ─▶ Http2Connection ─▶ GrpcCall ─▶ CallHandler ─▶ call.send, call.finish ─▶ bytes

The handler knows calls and their messages; what HTTP/2 needs besides, this room answers by itself.
"""

from pyromq.net.http2.call import GrpcCall
from pyromq.net.http2.connection import Http2Connection
from pyromq.net.http2.handler import CallHandler, CallLane, CallMethod
from pyromq.net.http2.limits import Http2Limits
from pyromq.net.http2.server import Http2Server

__all__ = ["CallHandler", "CallLane", "CallMethod", "GrpcCall", "Http2Connection", "Http2Limits", "Http2Server"]
