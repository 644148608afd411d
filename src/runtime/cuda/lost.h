#pragma once

#include <string>

namespace mica {

/// From now on every wait for a stream of the device raises DeviceError with these words: what they
/// compute is worth nothing, since another process's part of it never came. To be called again as
/// long as that is so: streams may be made.
void note_lost(int device, const std::string& why);

}  // namespace mica
