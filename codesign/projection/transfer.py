"""What of an op's own behaviour carries over to another GPU.

    time on target = measured on source x model(target) / model(source) x residual^(rho - 1)
    residual       = measured on source / model(source)

With rho = 1 the whole residual carries over (the same silicon runs the same kernels),
with rho = 0 none of it does, and the result is the model's own time on the target.
The model states rho by op, from pairs of GPUs that it was trained on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from codesign.hardware.model import System
    from codesign.workload.characterization import Characterization

Array = NDArray[np.float64]


def is_same_silicon(base: System, target: System) -> bool:
    """Whether ``target`` is ``base``'s own GPU, with or without levers."""
    return base.gpu.name == target.gpu.name


def transfer_factor(
    model: Any, char: Characterization, base: System, target: System, joint: Any
) -> Array:
    """(ops,) or (draws, ops): what the structural ratio is multiplied by on another GPU.

    A model without a ``carry_over`` carries every residual over.
    """
    carry_over = getattr(model, "carry_over", None)
    if carry_over is None:
        return np.ones(len(char.ops))
    return np.asarray(carry_over(char.ops, base, target, draws=joint))
