"""Op time as a function of the hardware, fitted, with covariance."""
