#pragma once

#include "mica/op/function.h"

namespace mica {

/// Adds a function while the program runs, which lasts as long as the process. `find_function`
/// finds it; `all_functions` are those of the library. Raises Unsupported where there is one of
/// that name.
const Function& register_function(Function function);

}  // namespace mica
