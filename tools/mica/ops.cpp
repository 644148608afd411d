#include <fmt/core.h>

#include "mica/custom/load_ops.h"
#include "mica/op/op_table.h"
#include "tools/mica/command.h"

namespace mica::tool {

void add_ops(CLI::App& app) {
  auto* command = app.add_subcommand(
      "ops", "List the operators with their kernels on each device, in the order they are tried");
  auto json = std::make_shared<bool>(false);
  auto libraries = std::make_shared<std::vector<std::string>>();
  command->add_option("--load", *libraries,
                      "Libraries of operators, and Python's files with some, to open first");
  command->add_flag("--json", *json, "Print one JSON array");
  command->footer(
      "Examples:\n  mica ops\n  mica ops --json\n  mica ops --load ./mish.so\n"
      "  python -m mica ops --load my_ops.py\n\n"
      "MICA_VERBOSE=dispatch shows each choice in a run, MICA_KERNEL=conv2d:reference forces one.");
  command->callback([json, libraries] {
    for (const std::string& path : *libraries) load_ops(path);
    fmt::print("{}", describe_ops(*json ? OpsFormat::json : OpsFormat::table));
  });
}

}  // namespace mica::tool
