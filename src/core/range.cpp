#include "mica/core/range.h"

namespace mica {

std::atomic<RangeListener*> g_range_listener{nullptr};

}  // namespace mica
