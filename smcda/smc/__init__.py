"""The algorithm: sequential Monte Carlo with data annealing, in JAX, on arrays and callables."""
