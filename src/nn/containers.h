#pragma once

#include <functional>
#include <initializer_list>
#include <type_traits>

#include "mica/nn/module.h"

namespace mica::nn {

using NamedModules = std::initializer_list<std::pair<std::string, Module>>;

/// A function as a layer without parameters: `Lambda([](const Tensor& x) { return x * 2; })`.
struct LambdaImpl : ModuleImpl {
  explicit LambdaImpl(std::function<Tensor(const Tensor&)> f);
  Tensor forward(const Tensor& x);

  const std::function<Tensor(const Tensor&)> function;
};
/// A function as a layer: `Lambda([](const Tensor& x) { return x * 2; })`.
using Lambda = Handle<LambdaImpl>;

/// Modules that their owner calls itself; the children are named "0", "1", ….
struct ModuleListImpl : ModuleImpl {
  Values call(const Values& inputs) override;
  void push_back(const Module& module);
  int64_t size() const;
};

/// One module after the other, each called with what the one before gave.
struct SequentialImpl : ModuleListImpl {
  Values call(const Values& inputs) override;
};

/// The handle of both. `Sequential(Linear(784, 100), ReLU(), Linear(100, 10))`: the layers have
/// their weights from the generator from left to right, in whatever order the compiler makes them.
/// Functions of a tensor may stand between them: `Sequential(conv, [](const Tensor& x) { … }, fc)`.
/// `Sequential({{"fc1", Linear(784, 100)}, {"fc2", Linear(100, 10)}})` names them.
template <std::derived_from<ModuleListImpl> I>
class ListOfModules : public Handle<I> {
  template <class M>
  static constexpr bool kIsModule = std::derived_from<std::remove_cvref_t<M>, Module>;
  template <class M>
  static constexpr bool kIsFunction =
      !kIsModule<M> && std::is_invocable_r_v<Tensor, M&, const Tensor&>;
  template <class M>
  static decltype(auto) as_module(M&& module) {
    if constexpr (kIsFunction<M>) {
      return Lambda(std::function<Tensor(const Tensor&)>(std::forward<M>(module)));
    } else {
      return std::forward<M>(module);
    }
  }
  template <class... M>
  static constexpr bool kIsCopy =
      sizeof...(M) == 1 && (std::same_as<std::remove_cvref_t<M>, ListOfModules> && ...);
  template <class... M>
  static constexpr bool kIsNothing =
      sizeof...(M) == 1 && (std::same_as<std::remove_cvref_t<M>, std::nullptr_t> && ...);

 public:
  template <class... Modules>
    requires(((kIsModule<Modules> || kIsFunction<Modules>) && ...) && !kIsCopy<Modules...>)
  explicit ListOfModules(Modules&&... modules) {
    std::vector<Module> fresh;  // that nobody can have seen yet
    [[maybe_unused]] const auto adopt = [&](const Module& module, bool temporary) {
      if (temporary && module.impl().use_count() == 1) fresh.push_back(module);
      (*this)->push_back(module);
    };
    (adopt(as_module(std::forward<Modules>(modules)), !std::is_lvalue_reference_v<Modules>), ...);
    draw_in_order(fresh);
  }
  template <class... Others>
    requires(!((kIsModule<Others> || kIsFunction<Others>) && ...) && !kIsNothing<Others...> &&
             !(std::convertible_to<Others, NamedModules> && ...))
  explicit ListOfModules(Others&&...) {
    static_assert(sizeof...(Others) == 0,
                  "mica: expected layers, and functions that make a tensor of a tensor");
  }
  template <std::same_as<std::nullptr_t> Nothing>
  ListOfModules(Nothing) : Handle<I>(nullptr) {}
  explicit ListOfModules(NamedModules modules) {
    for (const auto& [name, module] : modules) (*this)->register_module(name, module);
  }

  void push_back(const Module& module) const { (*this)->push_back(module); }
  template <class F>
    requires kIsFunction<F>
  void push_back(F function) const {
    push_back(as_module(std::move(function)));
  }
  int64_t size() const { return (*this)->size(); }
  Module operator[](int64_t i) const { return this->at(name_of(i)); }

 private:
  /// Of child i, counted from the end where it is negative; raises IndexError.
  std::string name_of(int64_t i) const;
};

extern template class ListOfModules<SequentialImpl>;
extern template class ListOfModules<ModuleListImpl>;

/// One module after the other.
using Sequential = ListOfModules<SequentialImpl>;
/// Modules that their owner calls itself.
using ModuleList = ListOfModules<ModuleListImpl>;

/// Modules by name that their owner calls itself.
struct ModuleDictImpl : ModuleImpl {
  Values call(const Values& inputs) override;
};

/// `ModuleDict({{"left", Linear(4, 2)}, {"right", Linear(4, 2)}})`, then `.at("left")(x)`.
class ModuleDict : public Handle<ModuleDictImpl> {
 public:
  explicit ModuleDict(NamedModules modules = {});
  void insert(const std::string& name, const Module& module) const {
    (*this)->register_module(name, module);
  }
  bool contains(std::string_view name) const;
  int64_t size() const;
};

}  // namespace mica::nn
