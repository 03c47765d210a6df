"""gRPC and RocketMQ 5's messages in it: length-prefixed messages, Protocol Buffers, statuses. No I/O."""
