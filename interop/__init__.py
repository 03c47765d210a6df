"""PyroMQ beside the real Apache RocketMQ: processes, drivers and tests of ``make interop``."""
