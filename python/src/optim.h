#pragma once

// What the optimizers' bindings share.
#include "mica/optim/optimizer.h"
#include "python/src/bindings.h"

namespace mica::python {

/// Where an optimizer keeps the keys of its groups that are no options: a list of dictionaries.
inline constexpr const char* kFreeKeys = "_free_keys";
inline constexpr const char* kParamGroupsDoc =
    "The groups of parameters as dictionaries. group['lr'] is the rate that the next step uses; it "
    "and the other options may be set, and keys of one's own.";

/// How a class of optimizers reads and sets the options of a group, but for the rate.
struct GroupAccess {
  nb::dict (*get)(const optim::Optimizer& optimizer, size_t group);
  /// False where there is no option of this name.
  bool (*set)(optim::Optimizer& optimizer, size_t group, const std::string& name, nb::handle value);
};

/// What optimizer.param_groups gives.
nb::list param_groups(nb::handle self, const GroupAccess& access);
/// Whether what an optimizer was given are dictionaries.
bool is_list_of_groups(nb::handle params);

void bind_optimizer_base(nb::module_& m);
void bind_schedules_and_schedulers(nb::module_& m);

}  // namespace mica::python
