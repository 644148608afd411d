#pragma once

// Several processes that compute together; docs/distributed.md.
#include "mica/distributed/checkpoint.h"
#include "mica/distributed/data_parallel.h"
#include "mica/distributed/group.h"
#include "mica/distributed/sync_batch_norm.h"
#include "mica/ops/collective/collective.h"
