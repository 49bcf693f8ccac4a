"""What a workload did on a system: ops, steps, quality, provenance."""
