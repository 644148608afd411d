#include "mica/nn/containers.h"

#include "mica/core/check.h"
#include "mica/core/values_check.h"

namespace mica::nn {

Values SequentialImpl::call(const Values& inputs) {
  Values at = inputs;
  for (const auto& [name, module] : children()) at = module(at);
  return at;
}

Values ModuleListImpl::call(const Values&) {
  fail<Unsupported>("nn::ModuleList: call its modules one by one; it does not know their order");
}

Values ModuleDictImpl::call(const Values&) {
  fail<Unsupported>("nn::ModuleDict: call its modules by name; it does not know their order");
}

template <std::derived_from<ModuleListImpl> I>
std::string ListOfModules<I>::name_of(int64_t i) const {
  const auto children = (*this)->children();
  check<IndexError>(i >= -size() && i < size(), "nn::{}: index {} is out of range for {} modules",
                    (*this)->type_name(), i, size());
  return children[static_cast<size_t>(i < 0 ? i + size() : i)].first;
}

template class ListOfModules<SequentialImpl>;
template class ListOfModules<ModuleListImpl>;

ModuleDict::ModuleDict(NamedModules modules) {
  for (const auto& [name, module] : modules) insert(name, module);
}

bool ModuleDict::contains(std::string_view name) const {
  return (*this)->children().find(name) != nullptr;
}

LambdaImpl::LambdaImpl(std::function<Tensor(const Tensor&)> f) : function(std::move(f)) {}
Tensor LambdaImpl::forward(const Tensor& x) { return function(x); }

void ModuleListImpl::push_back(const Module& module) {
  const size_t before = children().size();  // not in the call: its snapshot would be copied
  register_module(std::to_string(before), module);
}
int64_t ModuleListImpl::size() const { return static_cast<int64_t>(children().size()); }
int64_t ModuleDict::size() const { return static_cast<int64_t>((*this)->children().size()); }

}  // namespace mica::nn
