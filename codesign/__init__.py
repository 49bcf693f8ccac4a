"""Hardware-software co-design recommendations from measured LLM workloads."""
