#pragma once

#include <functional>
#include <string>
#include <vector>

namespace mica::tool {

/// Runs a program as several processes by mpirun, again where one failed, up to `max_restarts`
/// times; `program(attempt)` is its command line. Gives the exit status.
int launch(int ranks, const std::string& hosts, int max_restarts,
           const std::function<std::vector<std::string>(int attempt)>& program);

/// This program, and the words it was started with.
std::string own_path();
std::vector<std::string> own_arguments();

}  // namespace mica::tool
