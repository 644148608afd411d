#pragma once

// What few programs write and read themselves: the page of a report, which the Trainer makes, and
// files of lists and dictionaries, those of torch.save among them.
#include "mica/io/report.h"
#include "mica/io/tree.h"
