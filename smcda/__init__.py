"""Sequential Monte Carlo over neural-network weights, with data annealing."""

__version__ = "0.1.0"
