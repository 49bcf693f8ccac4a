"""Step time over many GPUs: placement, parallelism."""
