"""Small real implementations for tests, ours and yours."""

from pyromq.testing.faulty_disk import Crashed, CrashMode, FaultyDisk
from pyromq.testing.manual_clock import ManualClock

__all__ = ["CrashMode", "Crashed", "FaultyDisk", "ManualClock"]
