#include "mica/core/scope.h"

#include <atomic>
#include <mutex>
#include <set>
#include <vector>

#include "mica/core/fork.h"

namespace mica {

constinit thread_local ScopeState t_scope;

namespace {
std::atomic<CallerName> g_caller_name{nullptr};
}  // namespace

std::string to_string(const Scope& scope) {
  constexpr const char* kNames[] = {"forward", "backward", "update"};
  std::string text = scope.module;
  for (const std::string& part : {std::string(kNames[static_cast<int>(scope.phase)]), scope.caller})
    if (!part.empty()) text += (text.empty() ? "" : " ") + part;
  return text;
}

std::string ModuleScope::path() const {
  std::vector<const std::string*> names;  // the innermost first
  for (const ModuleScope* scope = this; scope; scope = scope->outer_)
    if (scope->name_) names.push_back(scope->name_);
  std::string path;
  for (auto name = names.rbegin(); name != names.rend(); ++name)
    path += (path.empty() ? "" : ".") + **name;
  return path;
}

const std::string* kept_name(const std::string& name) {
  static auto& mutex = *new Mutex;
  static auto& names =
      *new std::set<std::string>;  // modules may outlive what is taken down at exit
  const std::lock_guard lock(mutex);
  return &*names.insert(name).first;
}

void set_caller_name(CallerName name) { g_caller_name = name; }

Scope current_scope() {
  Scope scope{t_scope.module ? t_scope.module->path() : "", t_scope.phase};
  const CallerName caller = g_caller_name;
  if (caller && (t_scope.phase != Phase::backward || t_scope.module)) scope.caller = caller();
  return scope;
}

}  // namespace mica
