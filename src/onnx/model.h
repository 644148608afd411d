#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// An ONNX file as plain structs, with the names of onnx.proto. Fields that mica neither reads nor
// writes (training, sharding, annotations) are not here.
namespace mica::onnx {

/// AttributeProto.AttributeType.
enum class AttributeType : uint8_t {
  undefined = 0,
  float_ = 1,
  int_ = 2,
  string = 3,
  tensor = 4,
  graph = 5,
  floats = 6,
  ints = 7,
  strings = 8,
  tensors = 9,
  graphs = 10,
  sparse_tensor = 11,
  sparse_tensors = 12,
  type_proto = 13,
  type_protos = 14,
};

using StringPairs = std::vector<std::pair<std::string, std::string>>;

/// Its values are in one of the fields of numbers, in `raw_data`, or in a file beside the model.
struct TensorProto {
  std::string name;
  std::vector<int64_t> dims;
  int32_t data_type = 0;  ///< TensorProto.DataType; DTypeInfo::onnx has those of dtypes
  std::vector<float> float_data;
  std::vector<int32_t> int32_data;
  std::vector<int64_t> int64_data;
  std::vector<double> double_data;
  std::vector<uint64_t> uint64_data;
  std::vector<std::string> string_data;
  /// Little endian. Memory that somebody else keeps: ModelProto::memory, or who writes it.
  std::span<const std::byte> raw_data;
  bool is_external = false;
  StringPairs external_data;  ///< location, offset, length
};

/// A sparse tensor: its values, and where they lie, as linear or as (n, rank) indices.
struct SparseTensorProto {
  TensorProto values;
  TensorProto indices;
  std::vector<int64_t> dims;
};

/// One dimension of a shape: a number, a name, or unknown.
struct Dimension {
  std::optional<int64_t> value;
  std::string param;
};

struct TypeProto {
  enum class Kind : uint8_t { none, tensor, sequence, map, optional, sparse_tensor, opaque };
  Kind kind = Kind::none;
  int32_t elem_type = 0;                        ///< of tensors; of a map its keys'
  std::optional<std::vector<Dimension>> shape;  ///< of tensors; none: the rank is unknown too
  std::vector<TypeProto> element;               ///< of the others: one
};

struct ValueInfoProto {
  std::string name;
  TypeProto type;
};

struct GraphProto;

/// Of a single tensor, graph, sparse tensor or type, `t`, `g` and so on in onnx.proto, it is the
/// one entry of the list; `type` says which it is.
struct AttributeProto {
  std::string name;
  std::string ref_attr_name;  ///< in a function: takes the value of that attribute of the call
  AttributeType type = AttributeType::undefined;
  float f = 0;
  int64_t i = 0;
  std::string s;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  std::vector<TensorProto> tensors;
  std::vector<GraphProto> graphs;
  std::vector<SparseTensorProto> sparse_tensors;
  std::vector<TypeProto> type_protos;
};

struct NodeProto {
  std::string name;
  std::string op_type;
  std::string domain;
  std::string overload;
  std::vector<std::string> input;   ///< an empty name: left out
  std::vector<std::string> output;  ///< likewise
  std::vector<AttributeProto> attribute;
};

struct GraphProto {
  std::string name;
  std::vector<NodeProto> node;
  std::vector<TensorProto> initializer;
  std::vector<SparseTensorProto> sparse_initializer;
  std::vector<ValueInfoProto> input;
  std::vector<ValueInfoProto> output;
  std::vector<ValueInfoProto> value_info;
  std::string doc_string;
};

struct OperatorSetIdProto {
  std::string domain;
  int64_t version = 0;
};

/// An operator that the model defines itself, by nodes.
struct FunctionProto {
  std::string name;
  std::string domain;
  std::string overload;
  std::vector<std::string> input;
  std::vector<std::string> output;
  std::vector<std::string> attribute;           ///< that a call has to give
  std::vector<AttributeProto> attribute_proto;  ///< that it may leave out, with their values
  std::vector<NodeProto> node;
  std::vector<OperatorSetIdProto> opset_import;
};

struct ModelProto {
  int64_t ir_version = 0;
  std::vector<OperatorSetIdProto> opset_import;
  std::string producer_name;
  std::string producer_version;
  std::string domain;
  int64_t model_version = 0;
  std::string doc_string;
  GraphProto graph;
  StringPairs metadata_props;
  std::vector<FunctionProto> functions;
  std::shared_ptr<const void> memory;  ///< what `raw_data` points into
};

/// The numbers of the fields on the wire, as onnx.proto has them: who reads and who writes share
/// them.
namespace field {
enum TensorProto : uint32_t {
  kTensorDims = 1,
  kTensorDataType = 2,
  kTensorSegment = 3,
  kTensorFloatData = 4,
  kTensorInt32Data = 5,
  kTensorStringData = 6,
  kTensorInt64Data = 7,
  kTensorName = 8,
  kTensorRawData = 9,
  kTensorDoubleData = 10,
  kTensorUint64Data = 11,
  kTensorExternalData = 13,
  kTensorDataLocation = 14,
};
enum SparseTensorProto : uint32_t { kSparseValues = 1, kSparseIndices = 2, kSparseDims = 3 };
enum TypeProto : uint32_t {
  kTypeTensor = 1,
  kTypeSequence = 4,
  kTypeMap = 5,
  kTypeOpaque = 7,
  kTypeSparseTensor = 8,
  kTypeOptional = 9,
  kTypeElement = 1,  ///< in each of them: the type of elements; of a map the keys'
  kTypeShape = 2,    ///< of tensors; of a map the type of values
  kShapeDim = 1,
  kDimValue = 1,
  kDimParam = 2,
};
enum ValueInfoProto : uint32_t { kValueName = 1, kValueType = 2 };
enum AttributeProto : uint32_t {
  kAttributeName = 1,
  kAttributeFloat = 2,
  kAttributeInt = 3,
  kAttributeString = 4,
  kAttributeTensor = 5,
  kAttributeGraph = 6,
  kAttributeFloats = 7,
  kAttributeInts = 8,
  kAttributeStrings = 9,
  kAttributeTensors = 10,
  kAttributeGraphs = 11,
  kAttributeTypeProto = 14,
  kAttributeTypeProtos = 15,
  kAttributeType = 20,
  kAttributeRefName = 21,
  kAttributeSparseTensor = 22,
  kAttributeSparseTensors = 23,
};
enum NodeProto : uint32_t {
  kNodeInput = 1,
  kNodeOutput = 2,
  kNodeName = 3,
  kNodeOpType = 4,
  kNodeAttribute = 5,
  kNodeDomain = 7,
  kNodeOverload = 8,
};
enum GraphProto : uint32_t {
  kGraphNode = 1,
  kGraphName = 2,
  kGraphInitializer = 5,
  kGraphDocString = 10,
  kGraphInput = 11,
  kGraphOutput = 12,
  kGraphValueInfo = 13,
  kGraphSparseInitializer = 15,
};
enum FunctionProto : uint32_t {
  kFunctionName = 1,
  kFunctionInput = 4,
  kFunctionOutput = 5,
  kFunctionAttribute = 6,
  kFunctionNode = 7,
  kFunctionOpsetImport = 9,
  kFunctionDomain = 10,
  kFunctionAttributeProto = 11,
  kFunctionOverload = 13,
};
enum ModelProto : uint32_t {
  kModelIrVersion = 1,
  kModelProducerName = 2,
  kModelProducerVersion = 3,
  kModelDomain = 4,
  kModelVersion = 5,
  kModelDocString = 6,
  kModelGraph = 7,
  kModelOpsetImport = 8,
  kModelMetadataProps = 14,
  kModelFunctions = 25,
};
enum OperatorSetIdProto : uint32_t { kOpsetDomain = 1, kOpsetVersion = 2 };
enum StringStringEntryProto : uint32_t { kEntryKey = 1, kEntryValue = 2 };
}  // namespace field

/// How a field lies on the wire.
enum class WireType : uint8_t { varint = 0, fixed64 = 1, length = 2, fixed32 = 5 };

/// Reads a model from its bytes, which `raw_data` points into and which the caller keeps. Takes
/// memory in proportion to them. Whatever is wrong raises IoError that names `name`.
ModelProto parse_model(std::span<const std::byte> bytes, const std::string& name);
/// The same of a single tensor, as the files beside test cases hold.
TensorProto parse_tensor(std::span<const std::byte> bytes, const std::string& name);
/// Reads a file; the model keeps its bytes.
ModelProto read_model(const std::string& path);

}  // namespace mica::onnx
