"""Ranks that take turns in one process, with a virtual clock."""
