"""What holds for all tests: checks record nobody's progress, and pictures need no screen."""

import os

os.environ["COURSE_PROGRESS"] = "off"
os.environ.setdefault("MPLBACKEND", "Agg")
