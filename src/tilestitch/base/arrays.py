"""Copies between arrays in compiled code.

numba takes seconds of a process to translate its first `target[:] = source`, and a quarter of a second for each
further one, most of it for the message about shapes that differ. These loops take a tenth of that.
"""

import numpy as np

from tilestitch.base.jit import lending


@lending
def copy_row(target: np.ndarray, source: np.ndarray) -> None:
    """Set the first elements of `target` to those of `source`; both have one axis."""
    for at in range(len(source)):
        target[at] = source[at]


@lending
def copy_rows(target: np.ndarray, source: np.ndarray) -> None:
    """Set the first rows of `target` to those of `source`; both have two axes, and rows of one length."""
    for row in range(source.shape[0]):
        for at in range(source.shape[1]):
            target[row, at] = source[row, at]
