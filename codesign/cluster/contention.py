"""What a collective behind compute takes from it: SMs, and the bandwidth of HBM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from codesign.hardware.model import System

Array = NDArray[np.float64]

COLLECTIVE_SMS = 24.0
"""SMs of a collective: DeepEP's default, amid the 16 to 32 channels of NCCL on NVLink."""


class Contention:
    """Compute lost to what runs behind it, on each of many systems."""

    def __init__(self, systems: Sequence[System], slowdown: float) -> None:
        self._slowdown = slowdown
        self._sms = np.array([COLLECTIVE_SMS / s.gpu.sm_count for s in systems])[:, None]
        self._hbm = np.array([s.gpu.hbm_bandwidth_bytes_per_s for s in systems])[:, None]

    def lost_s(self, hidden_s: Array, spent_s: Array, sent_bytes: Array) -> Array:
        """(systems, plans) seconds that compute takes longer.

        ``hidden_s`` of the ``spent_s`` that a rank's collectives take run behind compute, and
        send ``sent_bytes`` in all. Their SMs compute nothing meanwhile; what is sent is read
        from HBM, and as much arrives and is written: SMs / all SMs x hidden time + 2 x bytes /
        HBM bandwidth, times the calibrated `Efficiency.slowdown`, at most the hidden time.
        """
        spent = np.maximum(spent_s, 1e-30)
        share = self._sms + 2.0 * sent_bytes / spent / self._hbm
        lost: Array = hidden_s * np.minimum(self._slowdown * share, 1.0)
        return lost
