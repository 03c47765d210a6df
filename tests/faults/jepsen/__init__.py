"""What Jepsen did to NATS 2.12, done to three members: ``make faults ARGUMENTS=--jepsen``."""
