#pragma once

namespace mica {

/// Whether other programs, or other threads of this one, want the cores that it computes on: then a
/// thread that spins while it waits keeps those from running that it waits for. Known by how long
/// threads that could run waited for a core.
class CrowdedCores {
 public:
  /// What all threads have run and what they have waited for cores so far, at a time; all in
  /// seconds. True for a second after they waited for more than a quarter of theirs; for twice as
  /// long, up to a minute, where it is so again right after that.
  bool update(double now, double run, double waited);

 private:
  double run_ = 0;
  double waited_ = 0;
  bool crowded_ = false;
  double until_ = 0;
  double lasts_ = 0;
};

/// From here on threads of OpenMP, those of oneDNN, sleep while they wait where cores are crowded,
/// and spin for some milliseconds, as libgomp has it, elsewhere; unless OMP_WAIT_POLICY or
/// GOMP_SPINCOUNT say how they wait. Where the system does not tell how long threads waited for
/// cores, it is left to libgomp.
void watch_openmp_waits();

}  // namespace mica
