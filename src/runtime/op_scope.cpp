#include "mica/runtime/op_scope.h"

#include <utility>

namespace mica {
namespace {

thread_local const char* t_op = nullptr;

}  // namespace

const char* current_op() { return t_op; }

OpScope::OpScope(const char* op) : before_(std::exchange(t_op, op)) {}
OpScope::~OpScope() { t_op = before_; }

}  // namespace mica
