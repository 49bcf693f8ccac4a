"""Op time as a function of the hardware, fitted, with covariance."""

from codesign.sensitivity.draws import Draws
from codesign.sensitivity.errors import LeakageError
from codesign.sensitivity.fit import fit
from codesign.sensitivity.model import SensitivityModel, load_model
from codesign.sensitivity.modelfile import Identification

__all__ = ["Draws", "Identification", "LeakageError", "SensitivityModel", "fit", "load_model"]
