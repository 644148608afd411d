#pragma once

// Where time and memory go; docs/profiling.md.
#include "mica/profile/memory.h"
#include "mica/profile/profile.h"
