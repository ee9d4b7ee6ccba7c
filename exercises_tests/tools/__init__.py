"""A learner's folder: chapters copied, updated, caught up, written as scripts; and the pytest plugin for nbval."""
