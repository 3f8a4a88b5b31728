"""What this machine can do at best: matrix products per second, bytes per second."""

import time

import torch

from nanokv.products import linear


def best_of(f, repeat: int = 5) -> float:
    """Seconds of the fastest of several calls."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times)


def matrix_rate(dtype) -> float:
    """Multiply-adds x 2 per second of the best of a few products, of the shapes that a small model has among them."""
    shapes = ((512, 576, 1536), (2048, 576, 1536), (2048, 1536, 576), (2048, 2048, 2048))
    return max(rate(dtype, *shape) for shape in shapes)


def rate(dtype, t: int, n_in: int, n_out: int) -> float:
    """The better of torch's product and of nanokv's own, which goes through oneDNN where that is faster."""
    a, b = torch.randn(t, n_in).to(dtype), torch.randn(n_out, n_in).to(dtype)
    best = min(best_of(lambda: a @ b.T, repeat=15), best_of(lambda: linear(a, b), repeat=15))
    return 2 * t * n_in * n_out / best


def bandwidth(dtype, megabytes: int = 256) -> float:
    """Bytes per second read by matrix-vector products, as decoding does: a matrix far larger than the caches."""
    width = 4096
    a = torch.ones(megabytes * 2**20 // (width * dtype.itemsize), width, dtype=dtype)
    x = torch.ones(width, dtype=dtype)
    return a.nbytes / best_of(lambda: a @ x)
