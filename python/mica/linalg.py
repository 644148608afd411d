"""Linear algebra with PyTorch's names: factors, equations, determinants, norms, products.

Matrices are the last two axes of a tensor, and what comes before them is a batch. docs/linalg.md
says what raises, and which gradients there are.
"""

from mica._mica import LinAlgError as LinAlgError
from mica._mica.linalg import *  # noqa: F403
