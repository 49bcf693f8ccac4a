"""Shapes without running anything: a module on meta tensors to its ops."""

from codesign.capture.shape_only.shapes import masked, on_meta, shapes

__all__ = ["masked", "on_meta", "shapes"]
