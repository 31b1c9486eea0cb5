"""Where it runs: gradient code, devices and GPUs."""
