"""How runs work: a learner need not read this. Begin with README.md."""
