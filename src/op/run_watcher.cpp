#include "mica/op/run_watcher.h"

namespace mica {

std::atomic<RunWatcher*> g_run_watcher{nullptr};

}  // namespace mica
