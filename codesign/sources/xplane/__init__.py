"""XPlane: the profiles of JAX and TensorFlow (``.xplane.pb``)."""

from codesign.sources.xplane.read import read_xplane

__all__ = ["read_xplane"]
