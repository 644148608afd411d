#pragma once

#include <CLI/CLI.hpp>

#include <cstdlib>
#include <string>

#include "mica/core/device.h"

namespace mica::tool {

// Each adds a subcommand, with the function that runs it.
void add_train(CLI::App& app);
void add_eval(CLI::App& app);
void add_predict(CLI::App& app);
void add_bench(CLI::App& app);
void add_devices(CLI::App& app);
void add_ops(CLI::App& app);

/// `mica bench ops`: operators one by one, those whose row contains `only`, each beside its floor.
void bench_ops(Device device, const std::string& only, bool json);

/// "cpu", "cuda", "cuda:1", or "auto" for CUDA where there is any. A CUDA device that cannot be had
/// raises with the reason.
Device choose_device(const std::string& name);

/// For options that count something.
inline CLI::Validator at_least_one() {
  return {[](const std::string& text) {
            const bool ok = std::strtoll(text.c_str(), nullptr, 10) >= 1;
            return ok ? std::string() : "expected a number of at least 1, got " + text;
          },
          ""};
}

}  // namespace mica::tool
