#pragma once

#include "mica/core/range.h"
#include "mica/op/run_watcher.h"
#include "mica/profile/profile.h"

namespace mica::profiler {

/// Starts to record in all threads, from nothing; raises where somebody records already.
void start_recording();
/// Whether runs and ranges are noted now. Steps that a schedule leaves out are not; those that it
/// warms up with are traced, but not kept.
enum class Recording { off, warming, on };
void set_recording(Recording to);
/// Who else is told of runs and ranges from now on, whether something is recorded or not; null:
/// nobody.
void watch_besides(RunWatcher* watcher, RangeListener* listener);
/// Notes that a step begins or ends now.
void note_step();
/// Ends it and gives what was noted; the times are from the first start on, without the stretches
/// that were left out.
Profile stop_recording();

}  // namespace mica::profiler
