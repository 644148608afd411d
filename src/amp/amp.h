#pragma once

// Mixed precision: regions that compute in low precision, and losses that are scaled for it.
#include "mica/amp/grad_scaler.h"
#include "mica/op/autocast.h"
