#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "mica/core/dims.h"
#include "mica/core/dtype.h"
#include "mica/io/byte_source.h"
#include "mica/io/pickle.h"

namespace mica::io {

/// A tensor in a file of torch.save: a view of one of the file's storages, which it lies in.
struct TorchTensor {
  DType dtype;
  Shape shape;
  Dims strides;    ///< in elements, not negative
  uint64_t begin;  ///< of the first element in the file
};

/// What torch.save wrote: tensors and plain data, read without running code, as PyTorch's
/// weights_only does.
struct TorchFile {
  std::shared_ptr<Pickle> pickle;  ///< which the values belong to
  const PickleValue* root;         ///< values of kind `made` are the tensors of that number
  std::vector<TorchTensor> tensors;
};

/// Whether a file begins as torch.save's do: a zip archive, or the pickles of before 1.6.
bool begins_as_torch_file(std::span<const std::byte> first);
/// Reads all but the tensors' values. Whatever is wrong raises IoError; what is no tensor and no
/// plain data (a whole module, a class of one's own) Unsupported, with its name.
TorchFile parse_torch_file(const ByteSource& source);

}  // namespace mica::io
