"""The checks a learner calls, the pytest plugin that mends nbval, and the grader."""
