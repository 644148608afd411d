#include <filesystem>
#include <utility>

#include "mica/core/check.h"
#include "mica/onnx/build.h"
#include "mica/onnx/onnx.h"
#include "mica/onnx/run.h"

namespace mica::onnx {
namespace {

/// A part of dotted names: it holds parameters and is not called.
class Names : public nn::ModuleImpl {
 public:
  Values call(const Values& /*inputs*/) override {
    fail<Unsupported>("onnx: a part of a model's names holds parameters and cannot be called");
  }
  std::string describe() const override { return "Names()"; }
};

std::shared_ptr<nn::ModuleImpl> part_of(const nn::ModuleImpl& module, const std::string& name) {
  const auto children = module.children();
  const nn::Module* const child = children.find(name);
  return child ? child->impl() : nullptr;
}
bool is_weight(const nn::ModuleImpl& module, const std::string& name) {
  return module.own_parameters().find(name) || module.own_buffers().find(name);
}

/// Registers a weight under its name, each part before a dot a module. A name that cannot be split
/// so (an empty part, a part that is a weight itself) has lines in place of dots.
void add_weight(nn::ModuleImpl& root, Built::Weight& weight) {
  const auto add = [&](nn::ModuleImpl& owner, const std::string& name) {
    weight.member = name;
    if (weight.trained) {
      weight.index = owner.own_parameters().size();
      owner.register_parameter(name, weight.tensor);
    } else {
      weight.index = owner.own_buffers().size();
      owner.register_buffer(name, weight.tensor);
    }
    weight.tensor = {};  // the module has it now
  };
  std::vector<std::string> parts(1);
  for (const char c : weight.name) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  bool can_split = true;
  for (const std::string& part : parts) can_split = can_split && !part.empty();
  std::shared_ptr<nn::ModuleImpl> at;
  for (size_t i = 0; can_split && i < parts.size(); ++i) {
    const nn::ModuleImpl& in = at ? *at : root;
    const std::shared_ptr<nn::ModuleImpl> child = part_of(in, parts[i]);
    can_split = !is_weight(in, parts[i]) && (i + 1 < parts.size() || !child);
    if (!child) break;
    at = child;
  }
  if (!can_split) {
    std::string name = weight.name.empty() ? "weight" : weight.name;
    for (char& c : name) c = c == '.' ? '_' : c;
    while (part_of(root, name) || is_weight(root, name)) name += '_';
    return add(root, name);
  }
  nn::ModuleImpl* owner = &root;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    std::shared_ptr<nn::ModuleImpl> child = part_of(*owner, parts[i]);
    if (!child) {
      child = std::make_shared<Names>();
      owner->register_module(parts[i], nn::Module(child));
    }
    owner = child.get();
    weight.modules.push_back(parts[i]);
  }
  add(*owner, parts.back());
}

nn::Module module_of(const ModelProto& model, const ModelFile& file) {
  auto parts = std::make_shared<ImportedImpl::Parts>();
  parts->name = file.name;
  parts->built = build(model, file);
  const nn::Module net(std::make_shared<ImportedImpl>(std::move(parts)));
  net.eval();
  return net;
}

}  // namespace

ImportedImpl::ImportedImpl(std::shared_ptr<Parts> parts) : parts_(std::move(parts)) {
  for (Built::Weight& weight : parts_->built.weights) add_weight(*this, weight);
}
ImportedImpl::~ImportedImpl() = default;

nn::Module load(const std::string& path) {
  const ModelProto model = read_model(path);
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  return module_of(model, {path, folder});
}

nn::Module load(std::span<const std::byte> bytes, const std::string& name) {
  return module_of(parse_model(bytes, name), {name, ""});
}

}  // namespace mica::onnx
