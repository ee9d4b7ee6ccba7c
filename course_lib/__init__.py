"""The small library that the notebooks of this course import, one noun a file."""
