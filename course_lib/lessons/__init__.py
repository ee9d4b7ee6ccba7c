"""What single chapters show and no exercise asks for: measured steps, rings, strategies, wrappers of torch."""
