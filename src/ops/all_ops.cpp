// The operators and the kernels of every provider that was built.
#include <cstring>
#include <string>
#include <vector>

#include "mica/core/check.h"
#include "mica/op/op_def.h"

namespace mica {

#define MICA_OP(name) const OpDef& name##_op();
#define MICA_VIEW_OP(name) const OpDef& name##_op();
#define MICA_ONEDNN_KERNEL(name) Kernel name##_onednn_kernel();
#include "mica/ops/op_list.h"

namespace {

/// The definitions are constants to everyone but the providers that add kernels to them.
OpDef* open(const OpDef& def) { return const_cast<OpDef*>(&def); }

void prepend(const OpDef& def, Kernel kernel) {
  KernelList& list = open(def)->kernels[static_cast<int>(DeviceKind::cpu)];
  list.insert(list.begin(), kernel);
}

std::vector<OpDef*> build() {
  std::vector<OpDef*> ops = {
#define MICA_OP(name) open(name##_op()),
#define MICA_VIEW_OP(name) open(name##_op()),
#include "mica/ops/op_list.h"
  };
#ifdef MICA_HAVE_ONEDNN
#define MICA_ONEDNN_KERNEL(name) prepend(name##_op(), name##_onednn_kernel());
#include "mica/ops/op_list.h"
#else
  (void)&prepend;
#endif
  return ops;
}

}  // namespace

std::span<OpDef* const> all_ops() {
  static const std::vector<OpDef*> ops = build();
  return ops;
}

std::span<const char* const> composite_ops() {
  static const std::vector<const char*> names = {
#define MICA_COMPOSITE(name) #name,
#include "mica/ops/op_list.h"
  };
  return names;
}

OpDef& find_op(const std::string& name) {
  for (OpDef* op : all_ops())
    if (name == op->name) return *op;
  fail<Unsupported>("no operator is named '{}'", name);
}

}  // namespace mica
