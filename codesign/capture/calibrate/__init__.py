"""A sweep of single ops on the GPU at hand: a kernel database of its own."""

from codesign.capture.calibrate.run import calibrate

__all__ = ["calibrate"]
