// A checkpoint is a directory of safetensors files, one of each rank that wrote it. Every tensor is
// a row of elements; a file has, of each row, the range that its metadata `pieces` tells. So any
// number of ranks can read it.
#include "mica/distributed/checkpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/io/safetensors.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/view/view.h"

namespace mica::distributed {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// A row of elements, or a part of one.
struct Piece {
  Tensor values;      ///< as it lies in the process
  int64_t begin = 0;  ///< of the row, where values are but a part of it
  int64_t end = 0;
  int64_t total = 0;
  bool divided = false;  ///< other ranks have the rest

  Tensor row() const { return reshape(values, {-1}); }
};
using Pieces = std::map<std::string, Piece>;

/// All that is saved and loaded, by name.
Pieces pieces_of(const DataParallel& parallel, const optim::Optimizer& optimizer) {
  Pieces all;
  const auto whole = [&](const std::string& name, const Tensor& t) {
    all[name] = {t, 0, t.numel(), t.numel(), false};
  };
  for (const auto& [name, t] : parallel.module().state_dict()) whole("model." + name, t);
  const int64_t group = parallel.options().group;
  const bool sharded = parallel.options().sharding != Sharding::none;
  const std::vector<int64_t> sizes = parallel.bucket_sizes();
  const Tensors shards = sharded ? parallel.parameters() : Tensors();
  for (const auto& [name, t] : optimizer.state_dict()) {
    // "3.exp_avg" belongs to shard 3.
    const size_t dot = name.find('.');
    const bool numbered =
        dot != std::string::npos && dot > 0 && name.find_first_not_of("0123456789") == dot;
    const size_t number = numbered ? std::stoul(name.substr(0, dot)) : shards.size();
    if (number >= shards.size() || t.numel() != shards[number].numel()) {
      whole("optimizer." + name, t);
      continue;
    }
    const int64_t total = sizes[number];
    const int64_t begin = std::min(total, group_rank(group) * t.numel());
    all["optimizer." + name] = {t, begin, std::min(total, begin + t.numel()), total, true};
  }
  return all;
}

std::string file_of(int rank, int ranks) {
  return fmt::format("rank-{:05}-of-{:05}.safetensors", rank, ranks);
}

/// Whether it went well in all ranks: who has an error raises it, the others that there was one.
void agree(const std::string& error, const std::string& what, int64_t group, Device device) {
  const Tensor any = all_reduce(full({}, error.empty() ? 0 : 1, {DType::f32, device}),
                                {.op = ReduceOp::max, .group = group});
  if (!error.empty()) fail<IoError>("{}", error);
  check<IoError>(any.item() == 0, "{}: another rank could not write its part", what);
}

/// Exchanges two directories in one step, or moves the new one to where nothing is.
void put_in_place(const fs::path& made, const fs::path& place) {
  const bool there = fs::exists(place);
#ifndef RENAME_EXCHANGE
  constexpr unsigned RENAME_EXCHANGE = 2;
#endif
  const int done =
      there ? ::renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, place.c_str(), RENAME_EXCHANGE)
            : std::rename(made.c_str(), place.c_str());
  check<IoError>(done == 0, "{}: cannot be put in its place: {}", place.string(),
                 std::strerror(errno));
  if (there) fs::remove_all(made);  // what was there before
}

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

/// What one file says of its pieces.
struct Range {
  int64_t begin, end, total;
};
std::map<std::string, Range> ranges_of(const io::Safetensors& file, const std::string& name) {
  std::map<std::string, Range> all;
  try {
    const Json pieces = Json::parse(file.metadata.at("pieces"));
    for (const auto& [key, r] : pieces.items()) all[key] = {r.at(0), r.at(1), r.at(2)};
  } catch (const std::exception& e) {
    fail<IoError>("{}: is no part of a checkpoint: {}", name, e.what());
  }
  return all;
}

/// The files of a checkpoint: all ranks' of one number of ranks.
std::vector<std::string> files_in(const std::string& directory) {
  std::error_code error;
  size_t ranks = 0;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    int rank = 0;
    int of = 0;
    if (std::sscanf(name.c_str(), "rank-%d-of-%d.safetensors", &rank, &of) == 2 && of > 0)
      ranks = static_cast<size_t>(of);
  }
  check<IoError>(!error && ranks > 0, "{}: is no checkpoint of several ranks", directory);
  std::vector<std::string> files;
  for (size_t r = 0; r < ranks; ++r)
    files.push_back(
        (fs::path(directory) / file_of(static_cast<int>(r), static_cast<int>(ranks))).string());
  return files;
}

}  // namespace

void save_checkpoint(const std::string& directory, const DataParallel& parallel,
                     const optim::Optimizer& optimizer,
                     const std::map<std::string, std::string>& texts) {
  const NoGrad guard;
  const int64_t group = parallel.options().group;
  const int rank = group_rank(group);
  const int ranks = group_size(group);
  const Device device = parallel.parameters().at(0).device();
  const fs::path place = fs::path(directory).lexically_normal();
  fs::path made = place;
  made += ".unfinished";
  agree(rank > 0 ? "" : error_of([&] {
          fs::remove_all(made);
          fs::create_directories(made);
        }),
        directory, group, device);
  agree(error_of([&] {
          StateDict own;
          Json ranges = Json::object();
          for (const auto& [name, p] : pieces_of(parallel, optimizer)) {
            // What all have is divided among them too, so that all disks work.
            const int64_t begin = p.divided ? p.begin : p.total * rank / ranks;
            const int64_t end = p.divided ? p.end : p.total * (rank + 1) / ranks;
            ranges[name] = {begin, end, p.total};
            own.emplace(name, slice(p.row(), 0, begin - p.begin, end - p.begin));
          }
          std::map<std::string, std::string> metadata = {{"pieces", ranges.dump()}};
          if (rank == 0)
            for (const auto& [key, text] : texts) metadata.emplace("text." + key, text);
          io::save_safetensors((made / file_of(rank, ranks)).string(), own, metadata);
        }),
        directory, group, device);
  agree(rank > 0 ? "" : error_of([&] { put_in_place(made, place); }), directory, group, device);
}

std::map<std::string, std::string> load_checkpoint(const std::string& directory,
                                                   const DataParallel& parallel,
                                                   optim::Optimizer& optimizer) {
  const NoGrad guard;
  Pieces wanted = pieces_of(parallel, optimizer);
  std::map<std::string, Tensor> rows;
  std::map<std::string, int64_t> found;
  std::map<std::string, std::string> texts;
  for (const auto& [name, p] : wanted) rows[name] = clone(to(p.row().detach(), Device::cpu()));
  for (const std::string& path : files_in(directory)) {
    const io::Safetensors file = io::load_safetensors(path);
    for (const auto& [key, text] : file.metadata)
      if (key.starts_with("text.")) texts.emplace(key.substr(5), text);
    for (const auto& [name, range] : ranges_of(file, path)) {
      const auto it = wanted.find(name);
      check<IoError>(it != wanted.end(), "{}: has '{}', which this run has not", path, name);
      const Piece& p = it->second;
      const auto values = file.tensors.find(name);
      check<IoError>(range.total == p.total && values != file.tensors.end() &&
                         values->second.numel() == range.end - range.begin &&
                         values->second.dtype() == p.values.dtype(),
                     "{}: '{}' must be {} elements of {}", path, name, p.total, p.values.dtype());
      const int64_t begin = std::max(range.begin, p.begin);
      const int64_t end = std::min(range.end, p.end);
      if (begin >= end) continue;
      copy_(slice(rows[name], 0, begin - p.begin, end - p.begin),
            slice(values->second, 0, begin - range.begin, end - range.begin));
      found[name] += end - begin;
    }
  }
  StateDict model;
  StateDict states;
  for (const auto& [name, p] : wanted) {
    check<IoError>(found[name] == p.end - p.begin, "{}: has {} of {} elements of '{}'", directory,
                   found[name], p.end - p.begin, name);
    const Tensor values = reshape(rows[name], p.values.shape());
    if (name.starts_with("model.")) {
      model.emplace(name.substr(6), values);
    } else {
      states.emplace(name.substr(10), values);
    }
  }
  optimizer.load_state_dict(states);
  parallel.module().load_state_dict(model);
  parallel.take_parameters();
  return texts;
}

}  // namespace mica::distributed
