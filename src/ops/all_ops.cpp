// The operators and the kernels of every provider that was built.
#include <pthread.h>
#include <map>
#include <memory>

#include <mutex>
#include <string>
#include <vector>

#include "mica/core/check.h"
#include "mica/core/fork.h"
#include "mica/op/function.h"
#include "mica/op/op_def.h"
#include "mica/op/pattern.h"

namespace mica {

#define MICA_OP(name) const OpDef& name##_op();
#define MICA_VIEW_OP(name) const OpDef& name##_op();
#define MICA_FUNCTIONS(name) Functions name##_functions();
#define MICA_ONEDNN_KERNEL(name) Kernel name##_onednn_kernel();
#define MICA_CARRYING(name) KernelList name##_carrying_kernels();
#define MICA_ONEDNN_CARRYING(name) Kernel name##_carrying_onednn_kernel();
#define MICA_PATTERNS(name) Patterns name##_patterns();
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
  KernelList& carrying = open(anchored_op())->kernels[static_cast<int>(DeviceKind::cpu)];
#define MICA_CARRYING(name)                              \
  for (const Kernel& kernel : name##_carrying_kernels()) \
    carrying.insert(carrying.end() - 1, kernel);
#include "mica/ops/op_list.h"
#ifdef MICA_HAVE_ONEDNN
#define MICA_ONEDNN_KERNEL(name) prepend(name##_op(), name##_onednn_kernel());
#define MICA_ONEDNN_CARRYING(name) prepend(anchored_op(), name##_carrying_onednn_kernel());
#include "mica/ops/op_list.h"
#else
  (void)&prepend;
#endif
  return ops;
}

/// The list, which only grows. The definitions themselves are never moved.
class OpTable {
 public:
  OpTable() : ops_(build()) {
    for (OpDef* op : ops_) by_name_.emplace(op->name, op);
  }

  std::vector<OpDef*> all() const {
    const std::lock_guard lock(mutex_);
    return ops_;
  }
  OpDef* find(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto it = by_name_.find(name);
    return it == by_name_.end() ? nullptr : it->second;
  }
  const OpDef& add(const std::string& name, OpDef def) {
    const std::lock_guard lock(mutex_);
    const auto [it, is_new] = by_name_.try_emplace(name, nullptr);
    check<Unsupported>(is_new, "an operator named '{}' is there already", name);
    // A map's keys stay where they are.
    def.name = it->first.c_str();
    it->second = added_.emplace_back(std::make_unique<OpDef>(std::move(def))).get();
    ops_.push_back(it->second);
    return *it->second;
  }

 private:
  mutable Mutex mutex_;
  std::vector<OpDef*> ops_;
  std::map<std::string, OpDef*> by_name_;
  std::vector<std::unique_ptr<OpDef>> added_;
};

/// Never destroyed: ops may be called until the process ends.
OpTable& table() {
  // A fork waits until the list is made: its child would wait for a thread that it has not.
  [[maybe_unused]] static const int watched =
      pthread_atfork([] { (void)table(); }, nullptr, nullptr);
  static auto* table = new OpTable;
  return *table;
}

}  // namespace

std::vector<OpDef*> all_ops() { return table().all(); }

std::span<const char* const> composite_ops() {
  static const std::vector<const char*> names = [] {
    std::vector<const char*> list;
    const auto is_known = [&](const char* name) {
      for (const OpDef* op : all_ops())
        if (std::strcmp(op->name, name) == 0) return true;
      for (const char* other : list)
        if (std::strcmp(other, name) == 0) return true;
      return false;
    };
    for (const Function& f : all_functions()) {
      const char* name = f.op ? f.op : f.name;
      if (!is_known(name)) list.push_back(name);
    }
    return list;
  }();
  return names;
}

std::span<const Function> all_functions() {
  static const Functions functions = [] {
    Functions all;
#define MICA_FUNCTIONS(name) \
  for (Function & f : name##_functions()) all.push_back(std::move(f));
#include "mica/ops/op_list.h"
    return all;
  }();
  return functions;
}

const Patterns& all_patterns() {
  static const Patterns patterns = [] {
    Patterns all;
#define MICA_PATTERNS(name) \
  for (Pattern & p : name##_patterns()) all.push_back(std::move(p));
#include "mica/ops/op_list.h"
    return all;
  }();
  return patterns;
}

OpDef& find_op(const std::string& name) {
  OpDef* op = table().find(name);
  check<Unsupported>(op != nullptr, "no operator is named '{}'", name);
  return *op;
}

const OpDef& register_op(const std::string& name, OpDef def) {
  return table().add(name, std::move(def));
}

}  // namespace mica
