#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "mica/onnx/model.h"
#include "mica/onnx/wire.h"

namespace mica::onnx {
namespace {

/// Reads the fields of each message. One that is not known is passed over, as Protocol Buffers
/// want.
class Parser {
 public:
  explicit Parser(WireFile& file) : file_(file) {}

  template <class M>
  void read(ByteSpan bytes, M& to) {
    file_.enter(bytes.data());
    WireMessage message(bytes, file_);
    for (WireField field; message.next(field);) set(field, to);
    file_.leave();
  }

 private:
  ByteSpan bytes_of(const WireField& f) {
    if (f.type != WireType::length) file_.bad(f.at, "a number where text or a message belongs");
    return f.bytes;
  }
  uint64_t number_of(const WireField& f) {
    if (f.type == WireType::length) file_.bad(f.at, "text or a message where a number belongs");
    return f.value;
  }
  void text(const WireField& f, std::string& to) {
    const ByteSpan b = bytes_of(f);
    to.assign(reinterpret_cast<const char*>(b.data()), b.size());
  }
  void text(const WireField& f, std::vector<std::string>& to) {
    file_.reserve(sizeof(std::string));
    text(f, to.emplace_back());
  }
  void pair(const WireField& f, StringPairs& to) {
    file_.reserve(sizeof(to[0]));
    read(bytes_of(f), to.emplace_back());
  }
  template <class M>
  void message(const WireField& f, std::vector<M>& to) {
    file_.reserve(sizeof(M));
    const ByteSpan bytes = bytes_of(f);
    read(bytes, to.emplace_back());
  }

  /// Numbers one by one or packed into one field.
  template <class T>
  void numbers(const WireField& f, std::vector<T>& to) {
    if (f.type != WireType::length) {
      to.push_back(number<T>(f.value));
      return;
    }
    if constexpr (std::is_floating_point_v<T>) {
      if (f.bytes.size() % sizeof(T) != 0) file_.bad(f.at, "packed numbers that are cut off");
      const size_t count = f.bytes.size() / sizeof(T);
      const size_t before = to.size();
      to.resize(before + count);
      if (count > 0) std::memcpy(to.data() + before, f.bytes.data(), f.bytes.size());
    } else {
      const auto ends = std::ranges::count_if(
          f.bytes, [](std::byte b) { return static_cast<uint8_t>(b) < 0x80; });
      file_.reserve(static_cast<uint64_t>(ends) * sizeof(T));
      to.reserve(to.size() + static_cast<size_t>(ends));
      WireMessage packed(f.bytes, file_);
      while (!packed.at_end()) to.push_back(static_cast<T>(packed.varint()));
    }
  }
  template <class T>
  static T number(uint64_t value) {
    if constexpr (std::is_same_v<T, float>) {
      return std::bit_cast<float>(static_cast<uint32_t>(value));
    } else if constexpr (std::is_same_v<T, double>) {
      return std::bit_cast<double>(value);
    } else {
      return static_cast<T>(value);
    }
  }

  void set(const WireField& f, std::pair<std::string, std::string>& to) {
    if (f.number == field::kEntryKey) text(f, to.first);
    if (f.number == field::kEntryValue) text(f, to.second);
  }
  void set(const WireField& f, TensorProto& to) {
    switch (f.number) {
      case field::kTensorDims:
        return numbers(f, to.dims);
      case field::kTensorDataType:
        to.data_type = static_cast<int32_t>(number_of(f));
        return;
      case field::kTensorSegment:
        file_.bad(f.at, "a tensor in segments, which no version of ONNX describes");
      case field::kTensorFloatData:
        return numbers(f, to.float_data);
      case field::kTensorInt32Data:
        return numbers(f, to.int32_data);
      case field::kTensorStringData:
        return text(f, to.string_data);
      case field::kTensorInt64Data:
        return numbers(f, to.int64_data);
      case field::kTensorName:
        return text(f, to.name);
      case field::kTensorRawData:
        to.raw_data = bytes_of(f);
        return;
      case field::kTensorDoubleData:
        return numbers(f, to.double_data);
      case field::kTensorUint64Data:
        return numbers(f, to.uint64_data);
      case field::kTensorExternalData:
        return pair(f, to.external_data);
      case field::kTensorDataLocation:
        to.is_external = number_of(f) == 1;
        return;
      default:
        return;
    }
  }
  void set(const WireField& f, SparseTensorProto& to) {
    if (f.number == field::kSparseValues) read(bytes_of(f), to.values);
    if (f.number == field::kSparseIndices) read(bytes_of(f), to.indices);
    if (f.number == field::kSparseDims) numbers(f, to.dims);
  }

  void set(const WireField& f, Dimension& to) {
    if (f.number == field::kDimValue) to.value = static_cast<int64_t>(number_of(f));
    if (f.number == field::kDimParam) text(f, to.param);
  }
  void set(const WireField& f, std::vector<Dimension>& to) {
    if (f.number == field::kShapeDim) message(f, to);
  }
  void set(const WireField& f, TypeProto& to) {
    using Kind = TypeProto::Kind;
    Kind kind = Kind::none;
    switch (f.number) {
      case field::kTypeTensor:
        kind = Kind::tensor;
        break;
      case field::kTypeSequence:
        kind = Kind::sequence;
        break;
      case field::kTypeMap:
        kind = Kind::map;
        break;
      case field::kTypeOpaque:
        kind = Kind::opaque;
        break;
      case field::kTypeSparseTensor:
        kind = Kind::sparse_tensor;
        break;
      case field::kTypeOptional:
        kind = Kind::optional;
        break;
      default:
        return;
    }
    to = TypeProto();
    to.kind = kind;
    if (kind == Kind::opaque) return;
    const bool is_tensor = kind == Kind::tensor || kind == Kind::sparse_tensor;
    WireMessage inner(bytes_of(f), file_);
    for (WireField part; inner.next(part);) {
      if (part.number == field::kTypeElement) {
        if (is_tensor || kind == Kind::map) {
          to.elem_type = static_cast<int32_t>(number_of(part));
        } else {
          to.element.clear();
          message(part, to.element);
        }
      } else if (part.number == field::kTypeShape && is_tensor) {
        read(bytes_of(part), to.shape.emplace());
      } else if (part.number == field::kTypeShape && kind == Kind::map) {
        to.element.clear();
        message(part, to.element);
      }
    }
  }
  void set(const WireField& f, ValueInfoProto& to) {
    if (f.number == field::kValueName) text(f, to.name);
    if (f.number == field::kValueType) read(bytes_of(f), to.type);
  }

  void set(const WireField& f, AttributeProto& to) {
    // Files of the first version do not say the type.
    const auto is = [&](AttributeType type) {
      if (to.type == AttributeType::undefined) to.type = type;
    };
    switch (f.number) {
      case field::kAttributeName:
        return text(f, to.name);
      case field::kAttributeRefName:
        return text(f, to.ref_attr_name);
      case field::kAttributeType: {
        const uint64_t type = number_of(f);
        if (type > static_cast<uint64_t>(AttributeType::type_protos))
          file_.bad(f.at, "an attribute of an unknown type");
        to.type = static_cast<AttributeType>(type);
        return;
      }
      case field::kAttributeFloat:
        is(AttributeType::float_);
        to.f = number<float>(number_of(f));
        return;
      case field::kAttributeInt:
        is(AttributeType::int_);
        to.i = static_cast<int64_t>(number_of(f));
        return;
      case field::kAttributeString:
        is(AttributeType::string);
        return text(f, to.s);
      case field::kAttributeTensor:
        is(AttributeType::tensor);
        return message(f, to.tensors);
      case field::kAttributeGraph:
        is(AttributeType::graph);
        return message(f, to.graphs);
      case field::kAttributeFloats:
        is(AttributeType::floats);
        return numbers(f, to.floats);
      case field::kAttributeInts:
        is(AttributeType::ints);
        return numbers(f, to.ints);
      case field::kAttributeStrings:
        is(AttributeType::strings);
        return text(f, to.strings);
      case field::kAttributeTensors:
        is(AttributeType::tensors);
        return message(f, to.tensors);
      case field::kAttributeGraphs:
        is(AttributeType::graphs);
        return message(f, to.graphs);
      case field::kAttributeTypeProto:
        is(AttributeType::type_proto);
        return message(f, to.type_protos);
      case field::kAttributeTypeProtos:
        is(AttributeType::type_protos);
        return message(f, to.type_protos);
      case field::kAttributeSparseTensor:
        is(AttributeType::sparse_tensor);
        return message(f, to.sparse_tensors);
      case field::kAttributeSparseTensors:
        is(AttributeType::sparse_tensors);
        return message(f, to.sparse_tensors);
      default:
        return;
    }
  }
  void set(const WireField& f, NodeProto& to) {
    switch (f.number) {
      case field::kNodeInput:
        return text(f, to.input);
      case field::kNodeOutput:
        return text(f, to.output);
      case field::kNodeName:
        return text(f, to.name);
      case field::kNodeOpType:
        return text(f, to.op_type);
      case field::kNodeAttribute:
        return message(f, to.attribute);
      case field::kNodeDomain:
        return text(f, to.domain);
      case field::kNodeOverload:
        return text(f, to.overload);
      default:
        return;
    }
  }
  void set(const WireField& f, GraphProto& to) {
    switch (f.number) {
      case field::kGraphNode:
        return message(f, to.node);
      case field::kGraphName:
        return text(f, to.name);
      case field::kGraphInitializer:
        return message(f, to.initializer);
      case field::kGraphDocString:
        return text(f, to.doc_string);
      case field::kGraphInput:
        return message(f, to.input);
      case field::kGraphOutput:
        return message(f, to.output);
      case field::kGraphValueInfo:
        return message(f, to.value_info);
      case field::kGraphSparseInitializer:
        return message(f, to.sparse_initializer);
      default:
        return;
    }
  }
  void set(const WireField& f, OperatorSetIdProto& to) {
    if (f.number == field::kOpsetDomain) text(f, to.domain);
    if (f.number == field::kOpsetVersion) to.version = static_cast<int64_t>(number_of(f));
  }
  void set(const WireField& f, FunctionProto& to) {
    switch (f.number) {
      case field::kFunctionName:
        return text(f, to.name);
      case field::kFunctionInput:
        return text(f, to.input);
      case field::kFunctionOutput:
        return text(f, to.output);
      case field::kFunctionAttribute:
        return text(f, to.attribute);
      case field::kFunctionNode:
        return message(f, to.node);
      case field::kFunctionOpsetImport:
        return message(f, to.opset_import);
      case field::kFunctionDomain:
        return text(f, to.domain);
      case field::kFunctionAttributeProto:
        return message(f, to.attribute_proto);
      case field::kFunctionOverload:
        return text(f, to.overload);
      default:
        return;
    }
  }
  void set(const WireField& f, ModelProto& to) {
    switch (f.number) {
      case field::kModelIrVersion:
        to.ir_version = static_cast<int64_t>(number_of(f));
        return;
      case field::kModelProducerName:
        return text(f, to.producer_name);
      case field::kModelProducerVersion:
        return text(f, to.producer_version);
      case field::kModelDomain:
        return text(f, to.domain);
      case field::kModelVersion:
        to.model_version = static_cast<int64_t>(number_of(f));
        return;
      case field::kModelDocString:
        return text(f, to.doc_string);
      case field::kModelGraph:
        return read(bytes_of(f), to.graph);
      case field::kModelOpsetImport:
        return message(f, to.opset_import);
      case field::kModelMetadataProps:
        return pair(f, to.metadata_props);
      case field::kModelFunctions:
        return message(f, to.functions);
      default:
        return;
    }
  }

  WireFile& file_;
};

template <class M>
M parse(ByteSpan bytes, const std::string& name) {
  WireFile file(bytes, name);
  M message;
  Parser(file).read(bytes, message);
  return message;
}

}  // namespace

ModelProto parse_model(ByteSpan bytes, const std::string& name) {
  ModelProto model = parse<ModelProto>(bytes, name);
  check<IoError>(
      !model.opset_import.empty() || !model.graph.node.empty() || !model.graph.output.empty(),
      "onnx: {}: is no ONNX model: it has neither a graph nor operator sets", name);
  return model;
}

TensorProto parse_tensor(ByteSpan bytes, const std::string& name) {
  return parse<TensorProto>(bytes, name);
}

}  // namespace mica::onnx
