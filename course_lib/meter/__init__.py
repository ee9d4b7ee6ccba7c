"""What each rank sent, received and held, written down as the same `Event`s on real and on simulated ranks."""

from course_lib.meter.dist import Meter, P2POp, sleep
from course_lib.meter.events import Event, describe, size_of
from course_lib.meter.held import bytes_held

__all__ = ["Event", "Meter", "P2POp", "bytes_held", "describe", "size_of", "sleep"]
