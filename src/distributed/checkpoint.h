#pragma once

#include <map>
#include <string>

#include "mica/distributed/data_parallel.h"

namespace mica::distributed {

/// Writes module, optimizer and texts by all ranks of the group at once, each its part of
/// everything, to a directory that all of them see. The directory takes the place of the one that
/// was there when all parts are safe, in one step: it is whole, or as it was.
void save_checkpoint(const std::string& directory, const DataParallel& parallel,
                     const optim::Optimizer& optimizer,
                     const std::map<std::string, std::string>& texts = {});

/// Reads one that any number of ranks wrote, with the same sharding or none, and gives back its
/// texts. What is missing or does not fit raises IoError, and then nothing was changed.
std::map<std::string, std::string> load_checkpoint(const std::string& directory,
                                                   const DataParallel& parallel,
                                                   optim::Optimizer& optimizer);

}  // namespace mica::distributed
