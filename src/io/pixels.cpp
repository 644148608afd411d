#include "mica/io/pixels.h"

#include "mica/core/check.h"
#include "mica/io/limits.h"

namespace mica::io {

void check_pixels(const Pixels& image, uint64_t packed, uint64_t beside, const std::string& name) {
  const auto size = static_cast<uint64_t>(image.size());
  check<IoError>(size <= most_unpacked(packed),
                 "{}: {} x {} pixels are more than the {} bytes that {} packed ones may become{}",
                 name, image.width, image.height, most_unpacked(packed), packed, budget_note());
  check<IoError>(2 * size + beside <= read_budget(), "{}: {} x {} pixels take {} bytes{}", name,
                 image.width, image.height, 2 * size + beside, budget_note());
}

}  // namespace mica::io
