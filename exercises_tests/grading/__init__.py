"""What only `make grade` and `make submit` need: answers as text, judged where they can reach nothing."""
