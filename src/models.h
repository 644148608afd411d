#pragma once

// Networks by name and by class; weights under the names that others save them by.
#include "mica/models/bert.h"
#include "mica/models/charlm.h"
#include "mica/models/gpt2.h"
#include "mica/models/image_models.h"
#include "mica/models/llama.h"
#include "mica/models/models.h"
#include "mica/models/resnet.h"
