"""Live runs on a GPU node. The only place that imports torch."""
