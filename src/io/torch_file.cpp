#include "mica/io/torch_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "mica/core/check.h"
#include "mica/io/limits.h"
#include "mica/io/zip.h"

namespace mica::io {
namespace {

using Kind = PickleValue::Kind;

constexpr std::array<uint8_t, 4> kZipMagic = {'P', 'K', 3, 4};
/// A pickle of the number 0x1950a86a20f9469cfc6c.
constexpr std::array<uint8_t, 15> kLegacyMagic = {0x80, 2,    0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46,
                                                  0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, '.'};

template <size_t n>
bool begins_with(std::span<const std::byte> bytes, const std::array<uint8_t, n>& magic) {
  return bytes.size() >= n && std::memcmp(bytes.data(), magic.data(), n) == 0;
}

struct TypeName {
  std::string_view name;
  DType dtype;
};
constexpr TypeName kStorages[] = {
    {"torch DoubleStorage", DType::f64}, {"torch FloatStorage", DType::f32},
    {"torch HalfStorage", DType::f16},   {"torch BFloat16Storage", DType::bf16},
    {"torch LongStorage", DType::i64},   {"torch IntStorage", DType::i32},
    {"torch ShortStorage", DType::i16},  {"torch CharStorage", DType::i8},
    {"torch ByteStorage", DType::u8},    {"torch BoolStorage", DType::boolean}};
constexpr TypeName kDTypes[] = {
    {"torch float64", DType::f64},        {"torch float32", DType::f32},
    {"torch float16", DType::f16},        {"torch bfloat16", DType::bf16},
    {"torch int64", DType::i64},          {"torch int32", DType::i32},
    {"torch int16", DType::i16},          {"torch int8", DType::i8},
    {"torch uint64", DType::u64},         {"torch uint32", DType::u32},
    {"torch uint16", DType::u16},         {"torch uint8", DType::u8},
    {"torch bool", DType::boolean},       {"torch float8_e4m3fn", DType::f8_e4m3},
    {"torch float8_e5m2", DType::f8_e5m2}};

template <size_t n>
std::optional<DType> find(const TypeName (&names)[n], std::string_view name) {
  for (const TypeName& each : names)
    if (each.name == name) return each.dtype;
  return {};
}

/// A storage that tensors are views of. Of one without a type, `count` are bytes.
struct Storage {
  std::optional<DType> dtype;
  std::string key;
  uint64_t count;
};
/// A view that is not yet held to where its storage lies.
struct View {
  size_t storage;
  DType dtype;
  Shape shape;
  Dims strides;
  uint64_t offset;
};

class Reader {
 public:
  explicit Reader(const ByteSource& source) : source_(source) {
    file_.pickle = std::make_shared<Pickle>(
        source.name,
        [this](Pickle& p, const std::string& global, std::span<PickleValue* const> arguments) {
          return call(p, global, arguments);
        },
        [this](Pickle& p, const PickleValue& id) { return storage(p, id); });
  }

  TorchFile read_archive();
  TorchFile read_legacy();

 private:
  PickleValue* call(Pickle& pickle, const std::string& global,
                    std::span<PickleValue* const> arguments);
  PickleValue* storage(Pickle& pickle, const PickleValue& id);
  PickleValue* tensor(Pickle& pickle, std::span<PickleValue* const> a, std::optional<DType> dtype);
  Dims sizes(const PickleValue& value, const char* what) const;
  uint64_t count_of(const PickleValue& value, const char* what) const;
  /// Puts the views where their storages lie: `where` gives the first byte and the number of bytes.
  void place(const std::function<ZipEntry(const Storage&)>& where);
  std::vector<std::byte> bytes_of(const ZipEntry& entry) const;

  const ByteSource& source_;
  TorchFile file_;
  std::vector<Storage> storages_;
  std::vector<View> views_;
  // What values of kind `made` are while the pickle is read: tensors by their number, storages by
  // what is left below -1.
  static int64_t as_made(size_t storage) { return -1 - static_cast<int64_t>(storage); }
};

uint64_t Reader::count_of(const PickleValue& value, const char* what) const {
  check<IoError>(value.kind == Kind::integer && value.number >= 0,
                 "{}: a tensor's {} is no whole number of at least 0", source_.name, what);
  return static_cast<uint64_t>(value.number);
}

Dims Reader::sizes(const PickleValue& value, const char* what) const {
  check<IoError>(value.kind == Kind::tuple || value.kind == Kind::list,
                 "{}: a tensor's {} is no tuple", source_.name, what);
  check<Unsupported>(value.items.size() <= Dims::kMaxRank,
                     "{}: a tensor has more than {} dimensions", source_.name, Dims::kMaxRank);
  std::vector<int64_t> all;
  for (const PickleValue* item : value.items)
    all.push_back(static_cast<int64_t>(count_of(*item, what)));
  return Dims(all);
}

PickleValue* Reader::storage(Pickle& pickle, const PickleValue& id) {
  const bool good = id.kind == Kind::tuple && id.items.size() >= 5 &&
                    id.items[0]->kind == Kind::text && id.items[0]->text == "storage" &&
                    id.items[1]->kind == Kind::global && id.items[2]->kind == Kind::text;
  check<IoError>(good, "{}: expected a storage of a tensor in the pickle", source_.name);
  const std::string& type = id.items[1]->text;
  const std::optional<DType> dtype = find(kStorages, type);
  check<Unsupported>(dtype || type == "torch.storage UntypedStorage",
                     "{}: a tensor of '{}', which mica has no dtype for", source_.name, type);
  check<Unsupported>(id.items.size() < 6 || id.items[5]->kind == Kind::none,
                     "{}: a storage that is a view of another, as files of before PyTorch 0.4 have",
                     source_.name);
  storages_.push_back({dtype, id.items[2]->text, count_of(*id.items[4], "storage size")});
  return pickle.make({.kind = Kind::made, .number = as_made(storages_.size() - 1)});
}

PickleValue* Reader::tensor(Pickle& pickle, std::span<PickleValue* const> a,
                            std::optional<DType> dtype) {
  check<IoError>(a.size() >= 4 && a[0]->kind == Kind::made && a[0]->number < 0,
                 "{}: a tensor is made of something else than a storage", source_.name);
  const auto number = static_cast<size_t>(-1 - a[0]->number);
  const Storage& storage = storages_[number];
  if (!dtype) dtype = storage.dtype;
  check<IoError>(dtype.has_value(), "{}: a tensor has no dtype", source_.name);
  View view{number, *dtype, sizes(*a[2], "shape"), sizes(*a[3], "strides"),
            count_of(*a[1], "offset")};
  check<IoError>(view.shape.rank() == view.strides.rank(),
                 "{}: a tensor has {} sizes and {} "
                 "strides",
                 source_.name, view.shape.rank(), view.strides.rank());
  const uint64_t elements = storage.dtype ? storage.count : storage.count / size_of(*dtype);
  // One past the last element; sizes of 0 count as 1, so that nothing can overflow later.
  int64_t end = 1;
  int64_t all = static_cast<int64_t>(size_of(*dtype));
  bool fits = true;
  for (int i = 0; i < view.shape.rank(); ++i) {
    const int64_t size = std::max<int64_t>(view.shape[i], 1);
    int64_t reach = 0;
    fits = fits && !__builtin_mul_overflow(size - 1, view.strides[i], &reach) &&
           !__builtin_add_overflow(end, reach, &end) && !__builtin_mul_overflow(all, size, &all);
  }
  check<IoError>(fits, "{}: a tensor of shape {} is too large", source_.name, view.shape);
  const bool empty = view.shape.contains(0);
  check<IoError>(
      view.offset <= elements && (empty || static_cast<uint64_t>(end) <= elements - view.offset),
      "{}: a tensor of shape {}, strides {} and offset {} does not lie in its storage of "
      "{} elements",
      source_.name, view.shape, view.strides, view.offset, elements);
  views_.push_back(std::move(view));
  return pickle.make({.kind = Kind::made, .number = static_cast<int64_t>(views_.size() - 1)});
}

PickleValue* Reader::call(Pickle& pickle, const std::string& global,
                          std::span<PickleValue* const> arguments) {
  const auto expect = [&](size_t least) {
    check<IoError>(arguments.size() >= least, "{}: '{}' is called with {} arguments", source_.name,
                   global, arguments.size());
  };
  if (global == "torch._utils _rebuild_tensor_v2" || global == "torch._utils _rebuild_tensor")
    return tensor(pickle, arguments, {});
  if (global == "torch._utils _rebuild_tensor_v3") {
    expect(7);
    const std::optional<DType> dtype = find(kDTypes, arguments[6]->text);
    check<Unsupported>(dtype.has_value(), "{}: a tensor of '{}', which mica has no dtype for",
                       source_.name, arguments[6]->text);
    return tensor(pickle, arguments, dtype);
  }
  if (global == "torch._utils _rebuild_parameter") {
    expect(1);
    return arguments[0];
  }
  if (global == "collections OrderedDict") {
    check<Unsupported>(arguments.empty(),
                       "{}: an OrderedDict that is made of pairs, as Python 2 "
                       "wrote it",
                       source_.name);
    return pickle.make({.kind = Kind::dict});
  }
  if (global == "torch Size") {
    expect(1);
    // What was put aside may come many times.
    check<IoError>(arguments[0]->items.size() <= 64, "{}: a size of {} dimensions", source_.name,
                   arguments[0]->items.size());
    return pickle.make({.kind = Kind::tuple, .items = arguments[0]->items});
  }
  if (global == "torch device" || global == "_codecs encode") {
    expect(1);
    check<IoError>(arguments[0]->kind == Kind::text, "{}: '{}' of what is no text", source_.name,
                   global);
    return arguments[0];
  }
  fail<Unsupported>(
      "{}: wants to call '{}'; only tensors and plain data are read, and no code is "
      "run",
      source_.name, global);
}

std::vector<std::byte> Reader::bytes_of(const ZipEntry& entry) const {
  check<IoError>(entry.size <= read_budget(), "{}: a pickle of {} bytes{}", source_.name,
                 entry.size, budget_note());
  std::vector<std::byte> bytes(entry.size);
  source_.read(bytes, entry.begin);
  return bytes;
}

void Reader::place(const std::function<ZipEntry(const Storage&)>& where) {
  for (const View& view : views_) {
    const Storage& storage = storages_[view.storage];
    const ZipEntry entry = where(storage);
    const uint64_t each = storage.dtype ? size_of(*storage.dtype) : 1;
    check<IoError>(storage.count <= entry.size / each,
                   "{}: storage '{}' has {} bytes, expected "
                   "{} elements",
                   source_.name, storage.key, entry.size, storage.count);
    file_.tensors.push_back(
        {view.dtype, view.shape, view.strides, entry.begin + view.offset * size_of(view.dtype)});
  }
}

TorchFile Reader::read_archive() {
  const std::map<std::string, ZipEntry> entries = zip_entries(source_);
  constexpr std::string_view kPickle = "/data.pkl";
  std::string folder;
  for (const auto& [name, entry] : entries)
    if (name.ends_with(kPickle)) folder = name.substr(0, name.size() - kPickle.size());
  const auto found = entries.find(folder + std::string(kPickle));
  check<IoError>(found != entries.end(),
                 "{}: the archive has no data.pkl: torch.save did not "
                 "write it",
                 source_.name);
  check<Unsupported>(!entries.contains(folder + "/constants.pkl"),
                     "{}: is a TorchScript module; only tensors and plain data are read",
                     source_.name);
  if (const auto order = entries.find(folder + "/byteorder"); order != entries.end()) {
    const std::vector<std::byte> text = bytes_of(order->second);
    check<Unsupported>(text.size() == 6 && std::memcmp(text.data(), "little", 6) == 0,
                       "{}: was written by a machine of another byte order", source_.name);
  }
  const std::vector<std::byte> bytes = bytes_of(found->second);
  size_t at = 0;
  file_.root = file_.pickle->read(bytes, at);
  place([&](const Storage& storage) {
    const auto it = entries.find(folder + "/data/" + storage.key);
    check<IoError>(it != entries.end(), "{}: the archive has no storage '{}'", source_.name,
                   storage.key);
    return it->second;
  });
  return std::move(file_);
}

/// A number of the format, a version, facts of the machine, the object, the storages' keys, and
/// each storage: its count and its bytes.
TorchFile Reader::read_legacy() {
  // Where the pickles end nobody says: what may be one is read, the storages are not.
  constexpr uint64_t kBytesPerByte = 256;
  const std::vector<std::byte> bytes =
      bytes_of({0, std::min(source_.size, read_budget() / kBytesPerByte)});
  size_t at = kLegacyMagic.size();
  const PickleValue* version = file_.pickle->read(bytes, at);
  check<Unsupported>(version->kind == Kind::integer && version->number == 1001,
                     "{}: a version of PyTorch's format that is not 1001", source_.name);
  const PickleValue* facts = file_.pickle->read(bytes, at);
  for (size_t i = 0; facts->kind == Kind::dict && i + 1 < facts->items.size(); i += 2)
    check<Unsupported>(facts->items[i]->text != "little_endian" || facts->items[i + 1]->number == 1,
                       "{}: was written by a machine of another byte order", source_.name);
  file_.root = file_.pickle->read(bytes, at);
  const PickleValue* keys = file_.pickle->read(bytes, at);
  check<IoError>(keys->kind == Kind::list, "{}: expected a list of storages", source_.name);
  std::map<std::string, std::optional<DType>> types;
  for (const Storage& storage : storages_) types.emplace(storage.key, storage.dtype);
  std::map<std::string, ZipEntry> entries;
  uint64_t begin = at;
  for (const PickleValue* key : keys->items) {
    const auto type = types.find(key->text);
    check<IoError>(type != types.end(), "{}: storage '{}' belongs to no tensor", source_.name,
                   key->text);
    uint64_t count = 0;
    check<IoError>(source_.size - begin >= sizeof count, "{}: ends before storage '{}'",
                   source_.name, key->text);
    source_.read(std::as_writable_bytes(std::span(&count, 1)), begin);
    begin += sizeof count;
    const uint64_t each = type->second ? size_of(*type->second) : 1;
    check<IoError>(count <= (source_.size - begin) / each,
                   "{}: storage '{}' of {} elements "
                   "reaches past the file",
                   source_.name, key->text, count);
    entries[key->text] = {begin, count * each};
    begin += count * each;
  }
  place([&](const Storage& storage) {
    const auto it = entries.find(storage.key);
    check<IoError>(it != entries.end(), "{}: the file has no storage '{}'", source_.name,
                   storage.key);
    return it->second;
  });
  return std::move(file_);
}

}  // namespace

bool begins_as_torch_file(std::span<const std::byte> first) {
  return begins_with(first, kZipMagic) || begins_with(first, kLegacyMagic);
}

TorchFile parse_torch_file(const ByteSource& source) {
  std::vector<std::byte> first(std::min<uint64_t>(source.size, kLegacyMagic.size()));
  source.read(first, 0);
  if (begins_with(first, kZipMagic)) return Reader(source).read_archive();
  check<IoError>(begins_with(first, kLegacyMagic), "{}: expected a file of torch.save",
                 source.name);
  return Reader(source).read_legacy();
}

}  // namespace mica::io
