#include "mica/core/state_dict.h"

#include "mica/core/check.h"

namespace mica {

StateDict::StateDict(std::initializer_list<value_type> entries) {
  for (const auto& [name, tensor] : entries) emplace(name, tensor);
}

StateDict::iterator StateDict::find(const std::string& name) {
  const auto place = places_.find(name);
  return place == places_.end() ? end() : begin() + static_cast<std::ptrdiff_t>(place->second);
}

StateDict::const_iterator StateDict::find(const std::string& name) const {
  const auto place = places_.find(name);
  return place == places_.end() ? end() : begin() + static_cast<std::ptrdiff_t>(place->second);
}

const Tensor& StateDict::at(const std::string& name) const {
  const auto found = find(name);
  check<IndexError>(found != end(), "StateDict: there is no '{}'", name);
  return found->second;
}

Tensor& StateDict::at(const std::string& name) {
  return const_cast<Tensor&>(std::as_const(*this).at(name));
}

Tensor& StateDict::operator[](const std::string& name) { return emplace(name, {}).first->second; }

std::pair<StateDict::iterator, bool> StateDict::emplace(std::string name, Tensor tensor) {
  const auto [place, added] = places_.try_emplace(name, entries_.size());
  if (added) entries_.emplace_back(std::move(name), std::move(tensor));
  return {begin() + static_cast<std::ptrdiff_t>(place->second), added};
}

size_t StateDict::erase(const std::string& name) {
  const auto found = find(name);
  if (found == end()) return 0;
  places_.erase(name);
  for (auto later = entries_.erase(found); later != end(); ++later) --places_.at(later->first);
  return 1;
}

Tensor StateDict::take(const std::string& name) {
  const auto found = find(name);
  if (found == end()) return {};
  Tensor tensor = std::move(found->second);
  erase(name);
  return tensor;
}

bool StateDict::contains(const std::string& name) const { return places_.contains(name); }

}  // namespace mica
