"""Scripts of benchmarks/ import their helpers as `support`, from their own folder."""

import sys
from pathlib import Path

FOLDER = str(Path(__file__).resolve().parents[3] / "benchmarks")
if FOLDER not in sys.path:
    sys.path.append(FOLDER)
