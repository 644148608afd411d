#pragma once

#include <map>

#include "mica/io/byte_source.h"

namespace mica::io {

/// Where a file of an archive lies in it.
struct ZipEntry {
  uint64_t begin;
  uint64_t size;
};

/// The files of a zip archive by name. They must be stored as they are, not packed. Whatever is
/// wrong raises IoError, what is packed or encrypted Unsupported.
std::map<std::string, ZipEntry> zip_entries(const ByteSource& source);

}  // namespace mica::io
