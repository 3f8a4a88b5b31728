"""The product that nearly all time goes into: rows times a matrix that is stored row by row."""

import torch
import torch.nn.functional as F

ONEDNN = torch.backends.mkldnn.is_available()


def linear(x, w, b=None):
    """x [... i] W^T + b: w [o i], b [o] or None -> [... o], in x's dtype.

    In float32 a CPU is asked through oneDNN, which torch has beside MKL and uses for half precision only: the same
    sums in another order, twice as fast where MKL does not use the widest vectors (AMD), a third faster for one row.
    A matrix that is neither stored row by row nor column by column would meet its slow reference code.
    """
    if ONEDNN and x.dtype == torch.float32 and x.device.type == "cpu" and (w.is_contiguous() or w.mT.is_contiguous()):
        return torch.ops.mkldnn._linear_pointwise(x.contiguous(), w, b, "none", [], "")
    return F.linear(x, w, b)
