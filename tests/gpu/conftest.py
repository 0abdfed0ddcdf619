"""These tests need torch and Triton, in an environment of their own, which `make test-gpu` builds and names."""

import os

collect_ignore_glob = [] if "TILESTITCH_GPU_PYTHON" in os.environ else ["*"]
