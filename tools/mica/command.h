#pragma once

#include <CLI/CLI.hpp>

#include "mica/core/device.h"

namespace mica::tool {

// Each adds a subcommand, with the function that runs it.
void add_train(CLI::App& app);
void add_bench(CLI::App& app);
void add_devices(CLI::App& app);
void add_ops(CLI::App& app);

/// "cpu", "cuda", "cuda:1", or "auto" for CUDA where there is any. A CUDA device that cannot be had
/// raises with the reason.
Device choose_device(const std::string& name);

}  // namespace mica::tool
