"""Class labels as int64, whatever form they come in. May import: numpy, torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

# A class id above this is a damaged value, and the bound keeps every cast below exact. It has
# float64, in which comparing it with float16 labels does not overflow.
_LARGEST_CLASS = np.float64(2**31 - 1)


def as_class_labels(y: Any) -> Tensor:
    """Return class labels as int64, one a node, with -1 for unlabelled nodes.

    Parameters
    ----------
    y : tensor or array of integers or floats, shape (num_nodes,) or (num_nodes, 1)
        NaN and -1 mean unlabelled, as in ogbn-papers100M.

    Returns
    -------
    Tensor of int64, shape (num_nodes,)

    Raises
    ------
    TypeError
        Neither integers nor floats.
    ValueError
        Another shape, or a label that is neither NaN nor a whole number from -1; the message
        names its index and value.
    """
    values = y.detach().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
    if values.dtype.kind not in "iuf":
        raise TypeError(f"y: expected integer or float labels, got {values.dtype}")
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        raise ValueError(f"y: expected shape (num_nodes,) or (num_nodes, 1), got {values.shape}")
    if values.dtype.kind == "f":
        # The cast of a NaN to an integer is undefined, so none may reach it.
        values = np.where(np.isnan(values), -1, values)
    wrong = (values < -1) | (values > _LARGEST_CLASS)
    if values.dtype.kind == "f":
        wrong |= values != np.floor(values)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"y[{at}] is {values[at]}: a label must be NaN or -1 (unlabelled), or a whole number "
            f"from 0 to {_LARGEST_CLASS:.0f}"
        )
    return torch.from_numpy(values.astype(np.int64))
