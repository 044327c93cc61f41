"""The estimators of curvature by the names that specs use."""

from __future__ import annotations

from dissensus.probes.hutch_plus_plus import hutch_plus_plus
from dissensus.probes.hutchinson import hutchinson
from dissensus.probes.lanczos import lanczos
from dissensus.probes.power_iteration import power_iteration

EIGENVALUES = {"power_iteration": power_iteration, "lanczos": lanczos}
TRACES = {"hutchinson": hutchinson, "hutch_plus_plus": hutch_plus_plus}
