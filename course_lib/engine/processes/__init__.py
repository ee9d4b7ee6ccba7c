"""Ranks that are processes: forked, watched, and ended."""
