"""Draws the README's picture again, wide and for a phone, light and dark: python docs/readme_pictures.py"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

from course_lib.plots.png_files import png
from course_lib.plots.ring import star_and_ring, star_and_ring_times

for width, draw in (("", star_and_ring), ("_narrow", star_and_ring_times)):
    figure = draw().figure
    for theme, dark in (("", False), ("_dark", True)):
        Path(__file__).with_name(f"star_and_ring{width}{theme}.png").write_bytes(png(figure, dark=dark))
