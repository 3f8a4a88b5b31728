"""What a checkpoint costs in memory, and that a loaded model no longer needs its files."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from checkpoints import config, tensors, write

from nanokv.config import read_config
from nanokv.load import read_weights

MEASURE = """
import sys
import torch
from nanokv.config import read_config
from nanokv.load import read_weights

def peak():  # not getrusage: a child's starts at its parent's
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))

folder, dtype = sys.argv[1], getattr(torch, sys.argv[2])
cfg = read_config(folder)
torch.ones(8, 8) @ torch.ones(8, 8)
before = peak()
weights = read_weights(folder, cfg, dtype)
layers = [x for layer in weights.layers for x in vars(layer).values() if x is not None]
kept = [weights.embed, weights.norm, *layers] + ([] if cfg.tied else [weights.unembed])
for x in kept:
    x.sum()  # every page
print((peak() - before) / sum(x.nbytes for x in kept))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc, which is not here")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_tensor_of_a_file_exists_twice_while_it_is_loaded(smollm2, dtype):
    root = Path(__file__).resolve().parents[1]
    run = [sys.executable, "-c", MEASURE, str(smollm2), dtype]
    share = float(subprocess.run(run, cwd=root, check=True, capture_output=True, text=True).stdout)
    assert 0.95 < share < 1.15


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_loaded_model_does_not_change_when_its_file_is_overwritten(tmp_path, dtype):
    stored = {name: x.to(dtype) for name, x in tensors().items()}
    folder = write(tmp_path, config(), stored)
    weights = read_weights(folder, read_config(folder), dtype)
    file = folder / "model.safetensors"
    n_bytes = file.stat().st_size
    with file.open("r+b") as f:  # in place: a file that is mapped would show it
        f.write(bytes(n_bytes))
    assert torch.equal(weights.layers[2].w_gate, stored["model.layers.2.mlp.gate_proj.weight"])
    assert torch.equal(weights.unembed, stored["lm_head.weight"])
