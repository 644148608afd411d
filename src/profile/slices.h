#pragma once

#include "mica/profile/profile.h"

namespace mica::profiler {

/// "forward", "backward", "update".
inline std::string name_of(Phase phase) { return to_string(Scope{.phase = phase}); }

/// "forward", "features", "0".
std::vector<std::string> parts_of(const Scope& scope);

/// A stretch in which a thread worked for one phase, or for one module and those inside it.
struct Slice {
  std::string name;
  bool is_phase = false;
  int depth = 0;   ///< a phase's is 0, and a module's one more than that of what it is in
  int thread = 0;  ///< or the track of a device
  int64_t begin = 0;
  int64_t end = 0;
};

/// From the first run of consecutive ones with the same phase, or the same module, to the last:
/// they nest, each begins before what is in it in the list.
std::vector<Slice> slices(const Profile& profile);
/// The same of what devices did.
std::vector<Slice> device_slices(const Profile& profile);

}  // namespace mica::profiler
