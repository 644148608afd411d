#pragma once

#include <string>

namespace mica {

enum class OpsFormat { table, json };

/// Every operator with its kernels on each device, in the order they are tried: what `mica ops`
/// prints.
std::string describe_ops(OpsFormat format);

}  // namespace mica
