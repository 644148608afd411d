// Files of torch.save, in both of its formats.
#include <algorithm>

#include "mica/core/error.h"
#include "mica/io/torch_file.h"
#include "tests/fuzz/fuzz.h"

namespace mica::fuzz {
namespace {

Bytes legacy(std::string_view object) {
  const std::string magic("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
  return to_bytes(magic + "\x80\x02M\xe9\x03.\x80\x02}.\x80\x02" + std::string(object) +
                  "\x80\x02].");
}

/// One file of the repository.
Bytes file(const char* name) {
  std::ifstream in(std::string("tests/golden/") + name, std::ios::binary);
  return to_bytes(std::string(std::istreambuf_iterator<char>(in), {}));
}

}  // namespace

std::vector<Bytes> seeds() {
  return {file("torch_archive.pt"),
          file("torch_legacy.pt"),
          file("torch_module.pt"),
          legacy("}q."),
          legacy("]K\x01"
                 "aM\x01\x02"
                 "a."),
          legacy("ccollections\nOrderedDict\n)R.")};
}

void read(std::span<const std::byte> bytes) {
  const io::ByteSource source{"file", bytes.size(), [&](std::span<std::byte> to, uint64_t at) {
                                if (at > bytes.size() || to.size() > bytes.size() - at)
                                  std::abort();
                                std::ranges::copy(bytes.subspan(at, to.size()), to.begin());
                              }};
  try {
    const io::TorchFile file = io::parse_torch_file(source);
    for (const io::TorchTensor& t : file.tensors) {
      uint64_t end = t.begin;
      if (numel(t.shape) > 0) {
        end += size_of(t.dtype);
        for (int i = 0; i < t.shape.rank(); ++i)
          end += static_cast<uint64_t>((t.shape[i] - 1) * t.strides[i]) * size_of(t.dtype);
      }
      if (end > bytes.size()) std::abort();
    }
  } catch (const Unsupported&) {
  }
}

}  // namespace mica::fuzz
