#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mica/nn/module.h"

// Models of ONNX: `const nn::Module net = onnx::load("model.onnx");`.
namespace mica::onnx {

class Cutter;  // onnx/run.h
class Run;

/// A model that was read from ONNX. It takes one tensor, a list in the order of its inputs or a
/// dict by their names, and gives what its outputs are: one, or a list of several.
class ImportedImpl : public nn::ModuleImpl {
 public:
  struct Parts;
  explicit ImportedImpl(std::shared_ptr<Parts> parts);
  ~ImportedImpl() override;

  Values call(const Values& inputs) override;
  std::string describe() const override;

  /// Names of the inputs that a call has to give, and of the outputs.
  std::vector<std::string> input_names() const;
  std::vector<std::string> output_names() const;

  // For onnx/segments.h.
  Values call(const Values& inputs, Cutter* cutter) const;
  void set_weights(Run& run) const;
  const Parts& parts() const { return *parts_; }

 private:
  std::shared_ptr<Parts> parts_;
};

/// Reads a model. Its floating initializers are parameters of their names ("layer.0.weight" is
/// `weight` of the module `layer.0`), the running statistics of its batch norms buffers. It is in
/// evaluation mode, where it computes what ONNX says; in training mode (`net.train()`) batch norms
/// and dropouts do what they do in training. Raises IoError for a file that is no model, and
/// Unsupported that lists all operators and dtypes that mica has not, with the names of their
/// nodes.
nn::Module load(const std::string& path);
/// The same from memory; external data cannot be read.
nn::Module load(std::span<const std::byte> bytes, const std::string& name = "model");

}  // namespace mica::onnx
