#pragma once

#include "mica/core/tensor.h"

namespace mica {

// Joins along axes that have a name, as NumPy has them. Dtypes promote.

/// Side by side: along axis 1, vectors along their own.
Tensor hstack(const Tensors& tensors);
/// One below the other: along axis 0; vectors are rows.
Tensor vstack(const Tensors& tensors);
/// One behind the other: along axis 2, which atleast_3d adds.
Tensor dstack(const Tensors& tensors);

/// Views of x at each index of an axis, which they have not.
Tensors unbind(const Tensor& x, int64_t axis = 0);
/// The tensors, each expanded to the shape that all of them broadcast to.
Tensors broadcast_tensors(const Tensors& tensors);

}  // namespace mica
