"""How fast the package is, by ratios measured in one process."""
