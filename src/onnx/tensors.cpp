#include "mica/onnx/tensors.h"

#include <array>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "mica/core/check.h"
#include "mica/core/dtype_switch.h"
#include "mica/io/file.h"
#include "mica/io/limits.h"

namespace mica::onnx {
namespace {

constexpr std::array<const char*, 29> kTypeNames = {
    "UNDEFINED",      "FLOAT",      "UINT8",          "INT8",       "UINT16",    "INT16",
    "INT32",          "INT64",      "STRING",         "BOOL",       "FLOAT16",   "DOUBLE",
    "UINT32",         "UINT64",     "COMPLEX64",      "COMPLEX128", "BFLOAT16",  "FLOAT8E4M3FN",
    "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "UINT4",      "INT4",      "FLOAT4E2M1",
    "FLOAT8E8M0",     "UINT2",      "INT2",           "FLOAT6E2M3", "FLOAT6E3M2"};

std::string where(const TensorProto& t, const ModelFile& file) {
  return fmt::format("onnx: {}: tensor '{}'", file.name, t.name);
}

/// Rank and sizes that a tensor can have, and whose bytes can be counted.
Shape shape_of(const TensorProto& t, size_t element, const ModelFile& file) {
  check<IoError>(t.dims.size() <= Dims::kMaxRank, "{}: has {} axes; a tensor has at most {}",
                 where(t, file), t.dims.size(), Dims::kMaxRank);
  uint64_t bytes = element;
  for (const int64_t size : t.dims) {
    check<IoError>(size >= 0, "{}: has a size of {}", where(t, file), size);
    check<IoError>(size == 0 || bytes <= (uint64_t{1} << 62) / static_cast<uint64_t>(size),
                   "{}: is larger than memory can be", where(t, file));
    bytes *= static_cast<uint64_t>(size);
  }
  return Shape(std::span<const int64_t>(t.dims));
}

std::optional<uint64_t> number_of(const StringPairs& pairs, std::string_view key,
                                  const TensorProto& t, const ModelFile& file) {
  for (const auto& [name, text] : pairs) {
    if (name != key) continue;
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    check<IoError>(error == std::errc() && end == text.data() + text.size(),
                   "{}: external data have '{}' for {}", where(t, file), text, key);
    return value;
  }
  return {};
}

/// The file of external data, which lies in the model's folder however its path is written.
std::filesystem::path external_path(const TensorProto& t, const ModelFile& file) {
  namespace fs = std::filesystem;
  std::string location;
  for (const auto& [name, text] : t.external_data)
    if (name == "location") location = text;
  const fs::path relative(location);
  bool inside = !location.empty() && relative.is_relative() &&
                location.find('\0') == std::string::npos && !file.folder.empty();
  for (const fs::path& part : relative) inside = inside && part != "..";
  fs::path path;
  if (inside) {  // a link may lead out of it too
    std::error_code failed;
    const fs::path folder = fs::canonical(file.folder, failed);
    path = folder / relative;
    const fs::path real = fs::canonical(path, failed);
    if (!failed) {
      const fs::path within = real.lexically_relative(folder);
      inside = !within.empty() && *within.begin() != "..";
      path = real;
    }
  }
  check<IoError>(inside, "{}: external data in '{}', which is not a file in the model's folder",
                 where(t, file), location);
  return path;
}

Tensor external_tensor(const TensorProto& t, DType dtype, const Shape& shape,
                       const ModelFile& file) {
  const io::File data = io::File::open(external_path(t, file).string());
  const uint64_t offset = number_of(t.external_data, "offset", t, file).value_or(0);
  const uint64_t expected = static_cast<uint64_t>(numel(shape)) * size_of(dtype);
  const uint64_t length = number_of(t.external_data, "length", t, file).value_or(expected);
  check<IoError>(length == expected, "{}: {} of {} needs {} bytes, and its external data have {}",
                 where(t, file), dtype, shape, expected, length);
  const uint64_t size = data.size();
  check<IoError>(offset <= size && length <= size - offset,
                 "{}: external data at byte {} of {} bytes, and {} has {}", where(t, file), offset,
                 length, data.path(), size);
  const Tensor tensor = empty(shape, {dtype});
  if (length > 0) data.read({static_cast<std::byte*>(tensor.data()), length}, offset);
  return tensor;
}

/// From values that each stand in a wider number, as int32_data has those of int8 and the bits of
/// float16.
template <class Wide>
Tensor narrowed(const std::vector<Wide>& values, DType dtype, const Shape& shape) {
  const Tensor tensor = empty(shape, {dtype});
  auto* to = static_cast<std::byte*>(tensor.data());
  const size_t size = size_of(dtype);
  for (const Wide value : values) {  // little endian: the low bytes come first
    std::memcpy(to, &value, size);
    to += size;
  }
  return tensor;
}

Tensor with_bools(Tensor tensor) {  // any byte but 0 is true
  if (tensor.dtype() == DType::boolean) {
    auto* bytes = static_cast<uint8_t*>(tensor.data());
    for (int64_t i = 0; i < tensor.numel(); ++i) bytes[i] = bytes[i] != 0 ? 1 : 0;
  }
  return tensor;
}

}  // namespace

std::optional<DType> dtype_of_onnx(int64_t data_type) {
  for (const DTypeInfo& each : kDTypeTable)
    if (each.onnx == data_type) return each.dtype;
  return {};
}

std::string onnx_type_name(int64_t data_type) {
  if (data_type >= 0 && data_type < static_cast<int64_t>(kTypeNames.size()))
    return kTypeNames[static_cast<size_t>(data_type)];
  return fmt::format("type {}", data_type);
}

Tensor to_tensor(const TensorProto& t, const ModelFile& file) {
  const std::optional<DType> dtype = dtype_of_onnx(t.data_type);
  check<Unsupported>(dtype.has_value(), "{}: mica has no dtype for {}", where(t, file),
                     onnx_type_name(t.data_type));
  const size_t element = size_of(*dtype);
  const Shape shape = shape_of(t, element, file);
  const auto count = static_cast<size_t>(numel(shape));
  const auto expect = [&](size_t values) {
    check<IoError>(values == count, "{}: {} of {} needs {} values, got {}", where(t, file), *dtype,
                   shape, count, values);
  };
  if (t.is_external) return with_bools(external_tensor(t, *dtype, shape, file));
  if (!t.raw_data.empty()) {
    check<IoError>(t.raw_data.size() == count * element, "{}: {} of {} needs {} bytes, got {}",
                   where(t, file), *dtype, shape, count * element, t.raw_data.size());
    return with_bools(tensor_from_bytes(t.raw_data.data(), shape, {*dtype}));
  }
  switch (*dtype) {
    case DType::f32:
      expect(t.float_data.size());
      return tensor_from_bytes(t.float_data.data(), shape, {*dtype});
    case DType::f64:
      expect(t.double_data.size());
      return tensor_from_bytes(t.double_data.data(), shape, {*dtype});
    case DType::i64:
      expect(t.int64_data.size());
      return tensor_from_bytes(t.int64_data.data(), shape, {*dtype});
    case DType::u64:
    case DType::u32:
      expect(t.uint64_data.size());
      return narrowed(t.uint64_data, *dtype, shape);
    default:
      expect(t.int32_data.size());
      return with_bools(narrowed(t.int32_data, *dtype, shape));
  }
}

Tensor to_tensor(const SparseTensorProto& sparse, const ModelFile& file) {
  const Tensor values = to_tensor(sparse.values, file);
  const Tensor at = to_tensor(sparse.indices, file);
  TensorProto whole;
  whole.name = sparse.values.name;
  whole.dims = sparse.dims;
  const Shape shape = shape_of(whole, size_of(values.dtype()), file);
  const auto bytes = static_cast<uint64_t>(numel(shape)) * size_of(values.dtype());
  check<IoError>(bytes <= io::read_budget(), "{}: a sparse tensor of {}{}", where(whole, file),
                 shape, io::budget_note());
  const int64_t count = values.numel();
  const bool linear = at.rank() == 1 && at.numel() == count;
  check<IoError>(values.rank() == 1 && at.dtype() == DType::i64 &&
                     (linear || (at.rank() == 2 && at.shape() == Shape{count, shape.rank()})),
                 "{}: a sparse tensor of {} with values of {} and indices of {}",
                 where(whole, file), shape, values.spec(), at.spec());
  const Tensor dense = empty(shape, {values.dtype()});
  auto* to = static_cast<std::byte*>(dense.data());
  if (bytes > 0) std::memset(to, 0, bytes);
  const std::vector<int64_t> index = at.to_vector<int64_t>();
  const size_t element = size_of(values.dtype());
  for (int64_t i = 0; i < count; ++i) {
    int64_t place = linear ? index[static_cast<size_t>(i)] : 0;
    bool inside = place >= 0 && place < numel(shape);
    for (int axis = 0; !linear && axis < shape.rank(); ++axis) {
      const int64_t p = index[static_cast<size_t>(i * shape.rank() + axis)];
      inside = inside && p >= 0 && p < shape[axis];
      place = place * shape[axis] + p;
      if (!inside) break;
    }
    check<IoError>(inside, "{}: a sparse tensor of {} with an index outside of it",
                   where(whole, file), shape);
    std::memcpy(to + static_cast<size_t>(place) * element,
                static_cast<const std::byte*>(values.data()) + static_cast<size_t>(i) * element,
                element);
  }
  return dense;
}

}  // namespace mica::onnx
