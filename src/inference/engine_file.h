#pragma once

#include "mica/inference/engine.h"
#include "mica/inference/network.h"

namespace mica::inference {

/// What an engine's file holds. It is a safetensors file: the constants are its tensors, the
/// network is JSON in its head, beside a hash over both.
struct EngineFile {
  Network network;
  std::vector<Profile> profiles;
};

void save_engine(const std::string& path, const EngineFile& engine);
/// Raises IoError where the file is damaged, or of a later version.
EngineFile load_engine(const std::string& path);
/// Whether a file says that it holds an engine; its tensors are not read.
bool is_engine(const std::string& path);

// The network alone as JSON, without its constants' values.
std::string network_text(const EngineFile& engine);
EngineFile network_from_text(const std::string& text, const StateDict& constants,
                             const std::string& name);

}  // namespace mica::inference
