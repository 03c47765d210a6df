"""The whole cluster in a simulator: one loop, virtual time, faults by seed, and judges."""
