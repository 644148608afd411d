#pragma once

#include <map>
#include <string>

#include "mica/core/state_dict.h"

namespace mica::io {

/// Everything a run needs to go on as if it had never stopped. In the file, one safetensors file,
/// tensors are named `model.NAME` and `optimizer.NAME`.
struct Checkpoint {
  StateDict model;
  StateDict optimizer;
  /// JSON text by name: `config`, `progress`, `random`.
  std::map<std::string, std::string> metadata;
};

/// Written all or nothing (write_file_atomically): a process that is killed, or a full disk, leaves
/// the checkpoint that was there.
void save_checkpoint(const std::string& path, const Checkpoint& checkpoint);

/// The tensors are on the CPU (load_safetensors). A file that is no checkpoint raises IoError.
Checkpoint load_checkpoint(const std::string& path);

/// The state of the random generators of the CPU and of `device`, as JSON text.
std::string random_state(Device device);
/// Goes on from it; `device` may be another than the one it was taken from. `name` is where the
/// text is from, in errors.
void set_random_state(const std::string& text, Device device, const std::string& name);

}  // namespace mica::io
