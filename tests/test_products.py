"""products.linear is x @ w.T + b, whatever the layout of the weights: against float64."""

import pytest
import torch

from nanokv.products import linear


def layouts(w):
    """The same matrix, contiguous, transposed in memory, and as every other column of a wider one."""
    wide = torch.zeros(w.shape[0], 2 * w.shape[1], dtype=w.dtype)
    wide[:, ::2] = w
    return {"rows": w.contiguous(), "columns": w.T.contiguous().T, "strided": wide[:, ::2]}


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("layout", ["rows", "columns", "strided"])
@pytest.mark.parametrize("shape", [(5,), (1, 1, 5), (1, 7, 5), (1, 3, 300, 5)])
@pytest.mark.parametrize("dtype, error", [(torch.float32, 1e-5), (torch.bfloat16, 0.1), (torch.float16, 0.01)])
def test_linear_is_the_product_with_the_transpose(dtype, error, shape, layout, bias):
    rng = torch.Generator().manual_seed(0)
    x, w, b = (torch.randn(size, generator=rng).to(dtype) for size in (shape, (9, 5), (9,)))
    made = linear(x, layouts(w)[layout], b if bias else None)
    exact = x.double() @ w.double().T + (b.double() if bias else 0)
    assert made.dtype == dtype and made.shape == (*shape[:-1], 9)
    assert (made.double() - exact).abs().max() < error
