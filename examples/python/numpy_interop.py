"""Memory shared with NumPy and with anything that speaks DLPack; files shared with PyTorch."""

import mica
import numpy as np

# One memory, two views of it: a change through either is seen by both.
array = np.arange(6, dtype=np.float32).reshape(2, 3)
shared = mica.from_numpy(array)
array[0, 0] = 10
shared[1] *= 2
assert shared[0, 0].item() == 10
assert array[1].tolist() == [6, 8, 10]

# Strides are shared too, so a transposed or sliced array costs nothing.
assert mica.from_numpy(array.T).shape == (3, 2)
assert shared[:, ::2].numpy().strides == array[:, ::2].strides

# A copy: mica.tensor takes lists, numbers and arrays, and owns what it makes.
owned = mica.tensor(array)
array[0, 0] = 0
assert owned[0, 0].item() == 10

# np.asarray shares memory as well, and so does DLPack, in both directions.
assert np.shares_memory(np.asarray(shared), array)
assert np.shares_memory(np.from_dlpack(shared), array)
assert mica.from_dlpack(np.ones(3)).dtype == mica.float64

# Indices may be arrays.
order = np.argsort(-array[1])
assert owned[1][order].tolist() == [10, 8, 6]
print("shared", array.tolist(), "owned", owned.tolist())
