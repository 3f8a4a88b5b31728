"""Where real benchmark files may lie: NANOKV_DATA, laid out as `eval/README.md` says. Nothing of them is committed."""

import os
from pathlib import Path


def data_root() -> Path | None:
    """The folder of NANOKV_DATA; None where it is unset or absent, and the tests of real files skip by name."""
    root = os.environ.get("NANOKV_DATA")
    return Path(root) if root and Path(root).is_dir() else None
