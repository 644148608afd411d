#include "mica/onnx/write_model.h"

#include <bit>
#include <cstring>

#include "mica/core/check.h"
#include "mica/io/file.h"

namespace mica::onnx {
namespace {

static_assert(std::endian::native == std::endian::little);

/// A message as its fields are added one after the other.
class Message {
 public:
  const std::vector<std::byte>& bytes() const { return bytes_; }

  void varint_field(uint32_t number, uint64_t value) {
    tag(number, WireType::varint);
    varint(value);
  }
  void int_field(uint32_t number, int64_t value) {
    varint_field(number, static_cast<uint64_t>(value));
  }
  void float_field(uint32_t number, float value) {
    tag(number, WireType::fixed32);
    append(std::as_bytes(std::span(&value, 1)));
  }
  void bytes_field(uint32_t number, std::span<const std::byte> value) {
    tag(number, WireType::length);
    varint(value.size());
    append(value);
  }
  /// Texts that are not there are not written.
  void text_field(uint32_t number, const std::string& text) {
    if (!text.empty()) texts_entry(number, text);
  }
  /// An entry of a list, of which an empty one counts.
  void texts_entry(uint32_t number, const std::string& text) {
    bytes_field(number, std::as_bytes(std::span(text)));
  }
  void message_field(uint32_t number, const Message& message) {
    bytes_field(number, message.bytes_);
  }
  /// A message of which the end is large: it is not put together before.
  void message_field(uint32_t number, const Message& head, uint32_t last,
                     std::span<const std::byte> value) {
    Message end;
    end.tag(last, WireType::length);
    end.varint(value.size());
    tag(number, WireType::length);
    varint(head.bytes_.size() + end.bytes_.size() + value.size());
    append(head.bytes_);
    append(end.bytes_);
    append(value);
  }
  template <class T>
  void packed_field(uint32_t number, const std::vector<T>& values) {
    if (values.empty()) return;
    if constexpr (std::is_floating_point_v<T>) {
      bytes_field(number, std::as_bytes(std::span(values)));
    } else {
      Message packed;
      for (const T value : values) packed.varint(static_cast<uint64_t>(int64_t{value}));
      message_field(number, packed);
    }
  }

 private:
  void tag(uint32_t number, WireType type) {
    varint(uint64_t{number} << 3 | static_cast<uint64_t>(type));
  }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<std::byte>(value | 0x80));
    bytes_.push_back(static_cast<std::byte>(value));
  }
  void append(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }

  std::vector<std::byte> bytes_;
};

/// All of a tensor but its raw data.
Message tensor_head(const TensorProto& t) {
  Message m;
  m.packed_field(field::kTensorDims, t.dims);
  m.int_field(field::kTensorDataType, t.data_type);
  m.packed_field(field::kTensorFloatData, t.float_data);
  m.packed_field(field::kTensorInt32Data, t.int32_data);
  m.packed_field(field::kTensorInt64Data, t.int64_data);
  m.packed_field(field::kTensorDoubleData, t.double_data);
  m.text_field(field::kTensorName, t.name);
  return m;
}

void add_tensor(Message& to, uint32_t number, const TensorProto& t) {
  check<Unsupported>(!t.is_external && t.string_data.empty() && t.uint64_data.empty(),
                     "onnx: tensor '{}': external data, texts and u64 numbers are not written",
                     t.name);
  const Message head = tensor_head(t);
  if (t.raw_data.empty()) {
    to.message_field(number, head);
  } else {
    to.message_field(number, head, field::kTensorRawData, t.raw_data);
  }
}

Message type_message(const TypeProto& type) {
  check<Unsupported>(type.kind == TypeProto::Kind::tensor,
                     "onnx: only types of tensors are written");
  Message tensor;
  tensor.int_field(field::kTypeElement, type.elem_type);
  if (type.shape) {
    Message shape;
    for (const Dimension& d : *type.shape) {
      Message dim;
      if (d.value) dim.int_field(field::kDimValue, *d.value);
      if (!d.value) dim.text_field(field::kDimParam, d.param);
      shape.message_field(field::kShapeDim, dim);
    }
    tensor.message_field(field::kTypeShape, shape);
  }
  Message m;
  m.message_field(field::kTypeTensor, tensor);
  return m;
}

Message value_message(const ValueInfoProto& value) {
  Message m;
  m.text_field(field::kValueName, value.name);
  m.message_field(field::kValueType, type_message(value.type));
  return m;
}

Message attribute_message(const AttributeProto& a) {
  Message m;
  m.text_field(field::kAttributeName, a.name);
  switch (a.type) {
    case AttributeType::float_:
      m.float_field(field::kAttributeFloat, a.f);
      break;
    case AttributeType::int_:
      m.int_field(field::kAttributeInt, a.i);
      break;
    case AttributeType::string:
      m.texts_entry(field::kAttributeString, a.s);
      break;
    case AttributeType::floats:
      for (const float f : a.floats) m.float_field(field::kAttributeFloats, f);
      break;
    case AttributeType::ints:
      for (const int64_t i : a.ints) m.int_field(field::kAttributeInts, i);
      break;
    case AttributeType::strings:
      for (const std::string& s : a.strings) m.texts_entry(field::kAttributeStrings, s);
      break;
    case AttributeType::tensor:
      for (const TensorProto& t : a.tensors) add_tensor(m, field::kAttributeTensor, t);
      break;
    default:
      fail<Unsupported>("onnx: attribute '{}': graphs, sparse tensors and types are not written",
                        a.name);
  }
  m.int_field(field::kAttributeType, static_cast<int64_t>(a.type));
  return m;
}

Message node_message(const NodeProto& node) {
  Message m;
  for (const std::string& name : node.input) m.texts_entry(field::kNodeInput, name);
  for (const std::string& name : node.output) m.texts_entry(field::kNodeOutput, name);
  m.text_field(field::kNodeName, node.name);
  m.text_field(field::kNodeOpType, node.op_type);
  for (const AttributeProto& a : node.attribute)
    m.message_field(field::kNodeAttribute, attribute_message(a));
  m.text_field(field::kNodeDomain, node.domain);
  return m;
}

Message graph_message(const GraphProto& graph) {
  Message m;
  for (const NodeProto& node : graph.node) m.message_field(field::kGraphNode, node_message(node));
  m.text_field(field::kGraphName, graph.name);
  for (const TensorProto& t : graph.initializer) add_tensor(m, field::kGraphInitializer, t);
  m.text_field(field::kGraphDocString, graph.doc_string);
  for (const ValueInfoProto& v : graph.input) m.message_field(field::kGraphInput, value_message(v));
  for (const ValueInfoProto& v : graph.output)
    m.message_field(field::kGraphOutput, value_message(v));
  for (const ValueInfoProto& v : graph.value_info)
    m.message_field(field::kGraphValueInfo, value_message(v));
  return m;
}

/// All of a model but its graph, which is its last field.
Message model_head(const ModelProto& model) {
  check<Unsupported>(model.functions.empty(), "onnx: functions of a model are not written");
  Message m;
  m.int_field(field::kModelIrVersion, model.ir_version);
  m.text_field(field::kModelProducerName, model.producer_name);
  m.text_field(field::kModelProducerVersion, model.producer_version);
  m.text_field(field::kModelDomain, model.domain);
  if (model.model_version != 0) m.int_field(field::kModelVersion, model.model_version);
  m.text_field(field::kModelDocString, model.doc_string);
  for (const OperatorSetIdProto& opset : model.opset_import) {
    Message set;
    set.text_field(field::kOpsetDomain, opset.domain);
    set.int_field(field::kOpsetVersion, opset.version);
    m.message_field(field::kModelOpsetImport, set);
  }
  for (const auto& [key, value] : model.metadata_props) {
    Message entry;
    entry.text_field(field::kEntryKey, key);
    entry.text_field(field::kEntryValue, value);
    m.message_field(field::kModelMetadataProps, entry);
  }
  return m;
}

}  // namespace

std::vector<std::byte> model_bytes(const ModelProto& model) {
  constexpr size_t kMostBytes = (size_t{1} << 31) - 1;
  size_t values = 0;
  for (const TensorProto& t : model.graph.initializer) values += t.raw_data.size();
  check<Unsupported>(values <= kMostBytes,
                     "onnx: {} bytes of weights; a file may have 2 GiB at most", values);
  Message m = model_head(model);
  m.message_field(field::kModelGraph, graph_message(model.graph));
  check<Unsupported>(m.bytes().size() <= kMostBytes,
                     "onnx: {} bytes; a file may have 2 GiB at most", m.bytes().size());
  return m.bytes();
}

void write_model(const std::string& path, const ModelProto& model) {
  const std::vector<std::byte> bytes = model_bytes(model);
  io::write_file_atomically(path, [&](io::File& file) { file.write(bytes); });
}

}  // namespace mica::onnx
