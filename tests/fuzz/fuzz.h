#pragma once

// What the fuzz targets share. A target defines `seeds` and `read`; the program with
// --seeds=DIRECTORY writes its seeds there and ends, otherwise it is libFuzzer's (tests/fuzz/run).
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "mica/core/error.h"

namespace mica::fuzz {

using Bytes = std::vector<std::byte>;

/// Files to begin with.
std::vector<Bytes> seeds();
/// The reader. IoError is what it should raise; anything else is a finding.
void read(std::span<const std::byte> bytes);

inline Bytes to_bytes(std::string_view text) {
  Bytes bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

inline void write_seeds(const std::string& directory) {
  int number = 0;
  for (const Bytes& seed : seeds()) {
    std::ofstream file(directory + "/seed" + std::to_string(number++), std::ios::binary);
    file.write(reinterpret_cast<const char*>(seed.data()),
               static_cast<std::streamsize>(seed.size()));
    if (!file.flush()) {
      std::perror(directory.c_str());
      std::exit(1);
    }
  }
  std::exit(0);
}

}  // namespace mica::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  constexpr const char* kSeeds = "--seeds=";
  if (*argc == 2 && std::strncmp((*argv)[1], kSeeds, std::strlen(kSeeds)) == 0)
    mica::fuzz::write_seeds((*argv)[1] + std::strlen(kSeeds));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    mica::fuzz::read(std::as_bytes(std::span(data, size)));
  } catch (const mica::IoError&) {
  }
  return 0;
}
