"""JAX's CUDA plugin, where it is installed, is loaded without looking for a driver."""

import os

os.environ.setdefault("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")
