"""Kept positions of the released counter-causal code, refresh by refresh, as a golden file.

The figures were made outside this project with the released code's hooks.py unmodified, on transformers 5.2.0 and
torch 2.13.0, float32 on a CPU, SmolLM2-135M-Instruct dequantised from the Q4_1 GGUF. This script only repacks them:

    python tests/golden/make_kept.py FIGURES.json

A set is stored as the positions that left since the refresh before, which keeps the file small.
"""

import json
import sys
from pathlib import Path


def main():
    figures = json.loads(Path(sys.argv[1]).read_text())
    for method in figures["methods"].values():
        held, newest, gone = set(), -1, []
        for kept in method.pop("kept"):
            held |= set(range(newest + 1, max(kept) + 1))
            newest = max(kept)
            gone.append(sorted(held - set(kept)))
            held = set(kept)
        method["gone"] = gone
    out = Path(__file__).parent / "kept_smollm2.json"
    out.write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
