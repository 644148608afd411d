#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/mica/command.h"

namespace mica::tool {

struct Launch {
  int ranks = 1;
  std::string hosts;  ///< a:4,b:4; else here
  std::string logs;   ///< a folder, or none
  int max_restarts = 0;
};

/// Runs a program as several processes by mpirun, again where one failed; `program(attempt)` is its
/// command line. Gives the exit status.
int launch(const Launch& how, const std::function<std::vector<std::string>(int attempt)>& program);
/// Adds --hosts, --logs and --max-restarts.
void add_launch_options(CLI::App& command, Launch& how);

/// This program, and the words it was started with.
std::string own_path();
std::vector<std::string> own_arguments();

}  // namespace mica::tool
