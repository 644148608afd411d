// Modules to files and back.
#include "mica/io/safetensors.h"
#include "mica/nn/module.h"

namespace mica::nn {

void Module::save(const std::string& path) const { io::save_safetensors(path, state_dict()); }

std::vector<std::byte> Module::save() const { return io::safetensors_bytes(state_dict()); }

void Module::load(const std::string& path) const {
  load_state_dict(io::load_safetensors(path).tensors);
}

void Module::load(std::span<const std::byte> file) const {
  load_state_dict(io::load_safetensors(file).tensors);
}

}  // namespace mica::nn
