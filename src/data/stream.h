#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mica/data/collate.h"
#include "mica/data/sampler.h"

namespace mica::data {

/// What one reader of a stream reads: of `count` parts, which have no example in common and
/// together are all of the epoch, the one of this index.
struct StreamPart {
  int64_t epoch = 0;
  int64_t index = 0;
  int64_t count = 1;
};

/// Reads a part of a stream once, from its beginning.
class StreamReader {
 public:
  virtual ~StreamReader() = default;
  /// The next example, or none at the end.
  virtual std::optional<Example> next() = 0;
  /// Passes the next one over; false at the end.
  virtual bool skip() { return next().has_value(); }
  /// How many parts there are: those that were asked for, or 1 where the stream is not split and
  /// the reader of part 0 gives all of it.
  virtual int64_t parts() const { return 1; }
};

/// What a stream is made of. One's own derives from it: `Stream(std::make_shared<Mine>())`.
class StreamImpl {
 public:
  StreamImpl() = default;
  StreamImpl(const StreamImpl&) = delete;
  StreamImpl& operator=(const StreamImpl&) = delete;
  virtual ~StreamImpl() = default;

  /// Part 0 is opened first, and the others, each in a thread of its own, where its reader says
  /// that there are several. For a run to be gone on with, the same part must give the same.
  virtual std::unique_ptr<StreamReader> open(const StreamPart& part) const = 0;
  /// Examples in an epoch, where that is known.
  virtual int64_t size() const { return kUnknownSize; }
  /// A batch of examples, whose running numbers are for messages: stacked, unless it is overridden.
  virtual Batch collate(std::vector<Example> examples, std::span<const int64_t> numbers) const;

  std::vector<std::string> class_names;
};

/// A shared handle to examples that come one after the other: from a file too large for memory, a
/// socket, a generator. A Loader makes batches of it.
class Stream {
 public:
  explicit Stream(std::shared_ptr<const StreamImpl> impl) : impl_(std::move(impl)) {}
  /// Of a function that begins an epoch and gives what reads it; it is not split.
  using Next = std::function<std::optional<Example>()>;
  explicit Stream(std::function<Next(int64_t epoch)> begin);

  std::unique_ptr<StreamReader> open(const StreamPart& part = {}) const;
  int64_t size() const { return impl_->size(); }
  const std::vector<std::string>& class_names() const { return impl_->class_names; }

  /// Each example as f makes it.
  Stream map(std::function<Example(const Example&)> f) const;
  /// In another order: of the next `buffer` examples of a part one drawn at random comes next. The
  /// same for the same seed, epoch and part.
  Stream shuffle(int64_t buffer, uint64_t seed = 0) const;

  const std::shared_ptr<const StreamImpl>& impl() const { return impl_; }

 private:
  std::shared_ptr<const StreamImpl> impl_;
};

/// The stream whose batches `collate` makes of its examples.
Stream collated(const Stream& stream, Collate collate);

/// One stream after the other. A stream that is not split is in part 0.
Stream chain(std::vector<Stream> streams);

}  // namespace mica::data
