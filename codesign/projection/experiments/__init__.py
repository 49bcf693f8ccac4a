"""Natural experiments: someone moved one lever and measured what it did."""

from codesign.projection.experiments.records import Experiment, load_experiments
from codesign.projection.experiments.run import experiment_rows

__all__ = ["Experiment", "experiment_rows", "load_experiments"]
