#include "mica/op/params.h"

#include "mica/core/check.h"

namespace mica {

std::string print_field(bool v) { return v ? "true" : "false"; }
std::string print_field(int64_t v) { return fmt::format("{}", v); }
std::string print_field(double v) { return fmt::format("{}", v); }
std::string print_field(DType v) { return std::string(name_of(v)); }
std::string print_field(Device v) { return to_string(v); }
std::string print_field(const Dims& v) { return to_string(v); }
std::string print_field(Size2 v) { return fmt::format("{{{}, {}}}", v.h, v.w); }
std::string print_field(Size3 v) { return fmt::format("{{{}, {}, {}}}", v.d, v.h, v.w); }

}  // namespace mica
