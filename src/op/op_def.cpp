#include "mica/op/op_def.h"

#include <string_view>

namespace mica {

const char* name_of(Precision precision) {
  switch (precision) {
    case Precision::low:
      return "low";
    case Precision::f32:
      return "f32";
    case Precision::widest:
      return "widest";
    case Precision::any:
      break;
  }
  return "any";
}

OpDef::OpDef() = default;
OpDef::OpDef(const OpDef& other) = default;
OpDef::OpDef(OpDef&& other) noexcept = default;
OpDef& OpDef::operator=(const OpDef& other) = default;
OpDef& OpDef::operator=(OpDef&& other) noexcept = default;
OpDef::~OpDef() = default;

namespace {

std::vector<Slot> slots(std::initializer_list<const char*> names) {
  std::vector<Slot> slots;
  for (std::string_view name : names) {
    const bool optional = name.ends_with('?');
    if (optional) name.remove_suffix(1);
    slots.push_back({std::string(name), optional});
  }
  return slots;
}

/// Whether the last name ends in "...", which is taken off.
bool open_ended(std::vector<Slot>& slots) {
  constexpr std::string_view kMore = "...";
  if (slots.empty() || !slots.back().name.ends_with(kMore)) return false;
  slots.back().name.resize(slots.back().name.size() - kMore.size());
  return true;
}

/// Of an elementwise op: x, or a, b, c, …
std::vector<Slot> operands(int count) {
  if (count == 1) return slots({"x"});
  std::vector<Slot> slots;
  for (int i = 0; i < count; ++i) slots.push_back({std::string(1, static_cast<char>('a' + i))});
  return slots;
}

}  // namespace

OpBuilder::OpBuilder(const char* name, const ParamsInfo& params) {
  def_.name = name;
  def_.params_info = &params;
  def_.out = slots({"y"});
}
OpBuilder::~OpBuilder() = default;

void OpBuilder::set_inputs(Names names) {
  def_.in = slots(names);
  def_.more_inputs = open_ended(def_.in);
}

void OpBuilder::set_outputs(Names names) {
  def_.out = slots(names);
  def_.more_outputs = open_ended(def_.out);
}

void OpBuilder::set_formats(std::initializer_list<Format> in, std::initializer_list<Format> out) {
  for (size_t i = 0; i < in.size(); ++i) def_.in.at(i).format = in.begin()[i];
  for (size_t i = 0; i < out.size(); ++i) def_.out.at(i).format = out.begin()[i];
}

void OpBuilder::set_saves(Saves saves) {
  def_.saved_inputs = saves.in;
  def_.saved_outputs = saves.out;
}

void OpBuilder::set_view() {
  def_.in = slots({"x"});
  def_.dtypes = kAllDTypes;
}

void OpBuilder::set_elementwise(int count) {
  def_.in = operands(count);
  def_.elementwise = count;
  for (auto* slots : {&def_.in, &def_.out})
    for (Slot& slot : *slots) slot.format = Format::images;
}

void OpBuilder::set_moves() {
  def_.moves = true;
  if (def_.dtypes.contains(DType::f32)) def_.dtypes = def_.dtypes.with_complex();
}

void OpBuilder::set_cpu(KernelList kernels) {
  def_.kernels[static_cast<int>(DeviceKind::cpu)] = std::move(kernels);
}

void OpBuilder::add_complex(Kernel kernel) {
  kernel.takes_complex = true;
  def_.kernels[static_cast<int>(DeviceKind::cpu)].push_back(kernel);
  def_.dtypes = def_.dtypes.with_complex();
}

OpDef OpBuilder::finish() {
  def_.cache = make_kernel_cache();
  return std::move(def_);
}

}  // namespace mica
