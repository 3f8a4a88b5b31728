"""What this machine can do at best: matrix products per second, bytes per second."""

import time

import torch


def best_of(f, repeat: int = 5) -> float:
    """Seconds of the fastest of several calls."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times)


def matrix_rate(dtype, n: int = 2048) -> float:
    """Multiply-adds x 2 per second of a product of n x n matrices."""
    a, b = torch.randn(n, n).to(dtype), torch.randn(n, n).to(dtype)
    return 2 * n**3 / best_of(lambda: a @ b.T)


def bandwidth(dtype, megabytes: int = 256) -> float:
    """Bytes per second read by matrix-vector products, as decoding does: a matrix far larger than the caches."""
    width = 4096
    a = torch.ones(megabytes * 2**20 // (width * dtype.itemsize), width, dtype=dtype)
    x = torch.ones(width, dtype=dtype)
    return a.nbytes / best_of(lambda: a @ x)
