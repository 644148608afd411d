#pragma once

#include <optional>
#include <string>

#include "mica/core/tensor.h"
#include "mica/onnx/model.h"

namespace mica::onnx {

/// The dtype of a TensorProto.DataType; none where mica has none.
std::optional<DType> dtype_of_onnx(int64_t data_type);
/// "FLOAT8E4M3FN"; "type 99" for what ONNX does not know either.
std::string onnx_type_name(int64_t data_type);

/// Where a model was read from: what errors name, and the folder that external data lie in.
struct ModelFile {
  std::string name;
  std::string folder;
};

/// A CPU tensor of the values of a tensor, wherever they stand. What is wrong with them raises
/// IoError, a dtype that mica has not Unsupported. External data are read from the model's folder,
/// which their path may not leave.
Tensor to_tensor(const TensorProto& proto, const ModelFile& file);
Tensor to_tensor(const SparseTensorProto& proto, const ModelFile& file);

}  // namespace mica::onnx
