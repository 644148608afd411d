#pragma once

#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "mica/core/device.h"

namespace mica::profiler {
struct Profile;
}

namespace mica::tool {

// Each adds a subcommand, with the function that runs it.
void add_train(CLI::App& app);
void add_eval(CLI::App& app);
void add_predict(CLI::App& app);
void add_generate(CLI::App& app);
void add_bench(CLI::App& app);
void add_profile(CLI::App& app);
void add_infer(CLI::App& app);
void add_convert(CLI::App& app);
void add_inspect(CLI::App& app);
void add_devices(CLI::App& app);
void add_ops(CLI::App& app);
void add_launch(CLI::App& app);

/// `mica bench ops`: operators one by one, those whose row contains `only`, each beside its floor.
void bench_ops(Device device, const std::string& only, bool json);
void bench_compile(Device device, bool json);
void bench_server(bool json);
/// Of the batches given, or of its own.
void bench_lstm(Device device, const std::vector<int64_t>& batches, bool json);
/// GPT-2 124M, one sequence, by a cache of keys and values; `breakdown` of the step that does it.
void bench_generate(Device device, bool breakdown, bool json);

// tools/mica/network.h
struct NetworkOptions;
struct NetworkFlags;

/// Of a network from a file; of the batches given, or of its own.
void bench_network(const std::string& path, const NetworkOptions& options,
                   const std::vector<int64_t>& batches, int64_t steps, bool json);
void add_network_flags(CLI::App& command, NetworkFlags& flags);

/// Writes the page of a profile to this file and its trace beside it, page.trace.json, and prints
/// its table; to stderr where stdout is for JSON.
void save_profile(const profiler::Profile& profile, const std::string& path, bool json);

/// "cpu", "cuda", "cuda:1", or "auto" for CUDA where there is any. A CUDA device that cannot be had
/// raises with the reason.
Device choose_device(const std::string& name);

/// Prints to stdout. What cannot be written (a full device) does not end what is going on: main
/// says so at the end, and the command fails.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  std::fwrite(text.data(), 1, text.size(), stdout);
}
/// The same to stderr, where nobody may be listening.
template <class... Args>
void note(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

/// A word of a command line as a shell takes it, whatever is in it.
std::string shell_word(const std::string& text);

/// For options that count something.
inline CLI::Validator at_least_one() {
  return {[](const std::string& text) {
            const bool ok = std::strtoll(text.c_str(), nullptr, 10) >= 1;
            return ok ? std::string() : "expected a number of at least 1, got " + text;
          },
          ""};
}

}  // namespace mica::tool
