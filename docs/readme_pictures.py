"""Draws the README's picture again, for a light page and a dark one: python docs/readme_pictures.py"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from course_lib.plots.png_files import png
from course_lib.plots.ring import star_and_ring

figure = star_and_ring().figure
for name, dark in (("star_and_ring.png", False), ("star_and_ring_dark.png", True)):
    Path(__file__).with_name(name).write_bytes(png(figure, dark=dark))
