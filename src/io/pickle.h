#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace mica::io {

/// What a pickle holds: plain data, names of things in Python, and what the reader makes of calls
/// of them. Values belong to the Pickle they were read into.
struct PickleValue {
  enum class Kind : uint8_t {
    none,
    boolean,
    integer,
    real,
    text,    ///< bytes too
    list,    ///< items
    tuple,   ///< items
    dict,    ///< items, keys and values in turn
    global,  ///< a name in Python: "module name"
    made,    ///< what a call or a persistent id stands for; `number` says which
  };
  Kind kind = Kind::none;
  int64_t number = 0;  ///< also of booleans
  double real = 0;
  std::string text = {};
  std::vector<PickleValue*> items = {};
};

/// Reads pickles of protocols 2 to 5 without running code: names are only named, and calls are
/// handed to who knows them. Takes memory in proportion to the bytes.
class Pickle {
 public:
  /// Gives the value of a call of a name with arguments; raises for a name that it does not know.
  using Call = std::function<PickleValue*(Pickle&, const std::string& global,
                                          std::span<PickleValue* const> arguments)>;
  /// Gives the value that a persistent id stands for.
  using Persistent = std::function<PickleValue*(Pickle&, const PickleValue& id)>;

  Pickle(std::string name, Call call, Persistent persistent)
      : name_(std::move(name)), call_(std::move(call)), persistent_(std::move(persistent)) {}

  /// Reads the pickle that begins at `at`, which then is where it ends. Whatever is wrong raises
  /// IoError, an instruction that is none of plain data's Unsupported.
  PickleValue* read(std::span<const std::byte> bytes, size_t& at);

  PickleValue* make(PickleValue value);
  const std::string& name() const { return name_; }

 private:
  class Machine;

  std::string name_;
  Call call_;
  Persistent persistent_;
  std::deque<PickleValue> values_;
};

}  // namespace mica::io
