#include "mica/io/pickle.h"

#include <bit>
#include <cstring>

#include "mica/core/check.h"
#include "mica/io/limits.h"

namespace mica::io {

using Kind = PickleValue::Kind;

/// One pickle being read: a stack, marks in it, and what was put aside.
class Pickle::Machine {
 public:
  Machine(Pickle& pickle, std::span<const std::byte> bytes, size_t at)
      : pickle_(pickle), bytes_(bytes), at_(at) {}

  PickleValue* run() {
    constexpr uint8_t kStop = '.';
    for (;;) {
      const auto instruction = take<uint8_t>();
      if (instruction == kStop) return pop();
      execute(instruction);
    }
  }
  size_t at() const { return at_; }

 private:
  void execute(uint8_t instruction);
  bool push_plain(uint8_t instruction);
  bool push_container(uint8_t instruction);
  bool fill_container(uint8_t instruction);
  bool use_memo(uint8_t instruction);

  template <class T>
  T take() {
    check<IoError>(bytes_.size() - at_ >= sizeof(T), "{}: the pickle ends at its byte {}",
                   pickle_.name_, at_);
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::string take_text(uint64_t size) {
    check<IoError>(size <= bytes_.size() - at_, "{}: a text of {} bytes reaches past the pickle",
                   pickle_.name_, size);
    std::string text(reinterpret_cast<const char*>(bytes_.data()) + at_, size);
    at_ += size;
    return text;
  }
  std::string take_line() {
    const auto* begin = bytes_.data() + at_;
    const auto* end = static_cast<const std::byte*>(std::memchr(begin, '\n', bytes_.size() - at_));
    check<IoError>(end != nullptr, "{}: a name in the pickle has no end", pickle_.name_);
    std::string line = take_text(static_cast<uint64_t>(end - begin));
    ++at_;
    return line;
  }
  int64_t take_long() {
    const auto size = take<uint8_t>();
    check<Unsupported>(size <= 8, "{}: a whole number of {} bytes in the pickle; at most 8",
                       pickle_.name_, size);
    uint64_t value = 0;
    uint8_t last = 0;
    for (unsigned i = 0; i < size; ++i) {
      last = take<uint8_t>();
      value |= uint64_t{last} << (8 * i);
    }
    if (size > 0 && size < 8 && (last & 0x80) != 0) value |= ~uint64_t{0} << (8U * size);
    return static_cast<int64_t>(value);
  }

  void push(PickleValue value) { stack_.push_back(pickle_.make(std::move(value))); }
  void push_text(std::string text) { push({.kind = Kind::text, .text = std::move(text)}); }
  void push_integer(int64_t number) { push({.kind = Kind::integer, .number = number}); }
  PickleValue* pop() {
    check<IoError>(stack_.size() > (marks_.empty() ? 0 : marks_.back()),
                   "{}: the pickle takes from an empty stack at its byte {}", pickle_.name_, at_);
    PickleValue* top = stack_.back();
    stack_.pop_back();
    return top;
  }
  PickleValue& top() {
    PickleValue* value = pop();
    stack_.push_back(value);
    return *value;
  }
  /// What lies above the last mark.
  std::vector<PickleValue*> pop_marked() {
    check<IoError>(!marks_.empty(), "{}: the pickle has no mark at its byte {}", pickle_.name_,
                   at_);
    const auto first = stack_.begin() + static_cast<ptrdiff_t>(marks_.back());
    std::vector<PickleValue*> items(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return items;
  }
  std::vector<PickleValue*> pop_items(size_t count) {
    std::vector<PickleValue*> items(count);
    while (count > 0) items[--count] = pop();
    return items;
  }
  void append(PickleValue& to, Kind kind, const std::vector<PickleValue*>& items) {
    check<IoError>(to.kind == kind && (kind == Kind::list || items.size() % 2 == 0),
                   "{}: the pickle fills what is no {} at its byte {}", pickle_.name_,
                   kind == Kind::list ? "list" : "dict", at_);
    to.items.insert(to.items.end(), items.begin(), items.end());
  }

  Pickle& pickle_;
  std::span<const std::byte> bytes_;
  size_t at_;
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint32_t, PickleValue*> memo_;
};

bool Pickle::Machine::push_plain(uint8_t instruction) {
  switch (instruction) {
    case 'N':
      push({});
      return true;
    case 0x88:
    case 0x89:
      push({.kind = Kind::boolean, .number = instruction == 0x88 ? 1 : 0});
      return true;
    case 'J':
      push_integer(take<int32_t>());
      return true;
    case 'K':
      push_integer(take<uint8_t>());
      return true;
    case 'M':
      push_integer(take<uint16_t>());
      return true;
    case 0x8a:
      push_integer(take_long());
      return true;
    case 'G':  // big-endian
      push(
          {.kind = Kind::real, .real = std::bit_cast<double>(__builtin_bswap64(take<uint64_t>()))});
      return true;
    case 'X':
    case 'T':
    case 'B':
      push_text(take_text(take<uint32_t>()));
      return true;
    case 'U':
    case 'C':
    case 0x8c:
      push_text(take_text(take<uint8_t>()));
      return true;
    case 0x8d:
    case 0x8e:
      push_text(take_text(take<uint64_t>()));
      return true;
    case 'c': {
      std::string name = take_line();
      name += " " + take_line();
      push({.kind = Kind::global, .text = std::move(name)});
      return true;
    }
    case 0x93: {
      const PickleValue* name = pop();
      const PickleValue* module = pop();
      constexpr size_t kLongest = 1000;  // one text may be used for many names
      check<IoError>(name->kind == Kind::text && module->kind == Kind::text &&
                         name->text.size() <= kLongest && module->text.size() <= kLongest,
                     "{}: a name in the pickle is no text, or a very long one", pickle_.name_);
      push({.kind = Kind::global, .text = module->text + " " + name->text});
      return true;
    }
    default:
      return false;
  }
}

bool Pickle::Machine::push_container(uint8_t instruction) {
  switch (instruction) {
    case ']':
      push({.kind = Kind::list});
      return true;
    case ')':
      push({.kind = Kind::tuple});
      return true;
    case '}':
      push({.kind = Kind::dict});
      return true;
    case 't':
      push({.kind = Kind::tuple, .items = pop_marked()});
      return true;
    case 'l':
      push({.kind = Kind::list, .items = pop_marked()});
      return true;
    case 'd': {
      const std::vector<PickleValue*> items = pop_marked();
      push({.kind = Kind::dict});
      append(top(), Kind::dict, items);
      return true;
    }
    case 0x85:
    case 0x86:
    case 0x87:
      push({.kind = Kind::tuple, .items = pop_items(instruction - 0x84U)});
      return true;
    default:
      return false;
  }
}

bool Pickle::Machine::fill_container(uint8_t instruction) {
  switch (instruction) {
    case '(':
      marks_.push_back(stack_.size());
      return true;
    case 'a': {
      const std::vector<PickleValue*> item = pop_items(1);
      append(top(), Kind::list, item);
      return true;
    }
    case 'e': {
      const std::vector<PickleValue*> items = pop_marked();
      append(top(), Kind::list, items);
      return true;
    }
    case 's': {
      const std::vector<PickleValue*> item = pop_items(2);
      append(top(), Kind::dict, item);
      return true;
    }
    case 'u': {
      const std::vector<PickleValue*> items = pop_marked();
      append(top(), Kind::dict, items);
      return true;
    }
    case '0':
      pop();
      return true;
    case '1':
      pop_marked();
      return true;
    case '2':
      stack_.push_back(&top());
      return true;
    default:
      return false;
  }
}

bool Pickle::Machine::use_memo(uint8_t instruction) {
  const auto put = [&](uint32_t key) { memo_[key] = &top(); };
  const auto get = [&](uint32_t key) {
    const auto found = memo_.find(key);
    check<IoError>(found != memo_.end(), "{}: the pickle has put nothing aside as {}",
                   pickle_.name_, key);
    stack_.push_back(found->second);
  };
  switch (instruction) {
    case 'q':
      put(take<uint8_t>());
      return true;
    case 'r':
      put(take<uint32_t>());
      return true;
    case 0x94:
      put(static_cast<uint32_t>(memo_.size()));
      return true;
    case 'h':
      get(take<uint8_t>());
      return true;
    case 'j':
      get(take<uint32_t>());
      return true;
    default:
      return false;
  }
}

void Pickle::Machine::execute(uint8_t instruction) {
  if (push_plain(instruction) || push_container(instruction) || fill_container(instruction) ||
      use_memo(instruction))
    return;
  switch (instruction) {
    case 0x80: {
      const auto protocol = take<uint8_t>();
      check<Unsupported>(protocol >= 2 && protocol <= 5,
                         "{}: a pickle of protocol {}; expected 2 "
                         "to 5",
                         pickle_.name_, protocol);
      return;
    }
    case 0x95:  // how long the next part is, which nobody needs
      take<uint64_t>();
      return;
    case 'R': {
      const PickleValue* arguments = pop();
      const PickleValue* function = pop();
      check<IoError>(function->kind == Kind::global && arguments->kind == Kind::tuple,
                     "{}: the pickle calls what is no name at its byte {}", pickle_.name_, at_);
      stack_.push_back(pickle_.call_(pickle_, function->text, arguments->items));
      return;
    }
    case 'Q': {
      const PickleValue* id = pop();
      stack_.push_back(pickle_.persistent_(pickle_, *id));
      return;
    }
    case 'b': {  // attributes, which plain data have none of: those of an OrderedDict are dropped
      pop();
      const Kind kind = top().kind;
      check<Unsupported>(kind == Kind::dict || kind == Kind::made,
                         "{}: the pickle sets attributes of what is no plain data", pickle_.name_);
      return;
    }
    case 0x81: {
      pop();
      const PickleValue* made = pop();
      fail<Unsupported>(
          "{}: holds an object of the class '{}'; only tensors and plain data are "
          "read, and no code is run",
          pickle_.name_, made->text);
    }
    default:
      fail<Unsupported>(
          "{}: the pickle's byte {} is the instruction 0x{:02x}, which tensors and "
          "plain data do not need",
          pickle_.name_, at_ - 1, instruction);
  }
}

PickleValue* Pickle::make(PickleValue value) { return &values_.emplace_back(std::move(value)); }

PickleValue* Pickle::read(std::span<const std::byte> bytes, size_t& at) {
  constexpr uint64_t kBytesPerByte = 256;  // of memory, for what a byte can make
  check<IoError>(bytes.size() - at <= read_budget() / kBytesPerByte,
                 "{}: a pickle of {} bytes may take {} times that in memory{}", name_,
                 bytes.size() - at, kBytesPerByte, budget_note());
  Machine machine(*this, bytes, at);
  PickleValue* result = machine.run();
  at = machine.at();
  return result;
}

}  // namespace mica::io
