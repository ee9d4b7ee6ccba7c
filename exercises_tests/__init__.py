"""The checks a learner calls; `tools/` keeps a learner's folder, `grading/` judges what is handed in."""
