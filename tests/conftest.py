"""Settings of the whole test run."""

import os

# scikit-learn's common tests skip their array API check without it; SciPy reads it
# when it is imported.
os.environ.setdefault("SCIPY_ARRAY_API", "1")
