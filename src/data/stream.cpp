#include "mica/data/stream.h"

#include "mica/core/check.h"
#include "mica/core/philox.h"
#include "mica/data/stack.h"

namespace mica::data {
namespace {

class FromFunction : public StreamImpl {
 public:
  explicit FromFunction(std::function<Stream::Next(int64_t epoch)> begin)
      : begin_(std::move(begin)) {}

  std::unique_ptr<StreamReader> open(const StreamPart& part) const override {
    class Reader : public StreamReader {
     public:
      explicit Reader(Stream::Next next) : next_(std::move(next)) {}
      std::optional<Example> next() override { return next_(); }

     private:
      Stream::Next next_;
    };
    return std::make_unique<Reader>(begin_(part.epoch));
  }

 private:
  std::function<Stream::Next(int64_t epoch)> begin_;
};

/// A stream that does something with another one's examples.
class Derived : public StreamImpl {
 public:
  explicit Derived(Stream base) : base_(std::move(base)) { class_names = base_.class_names(); }
  std::unique_ptr<StreamReader> open(const StreamPart& part) const override {
    return base_.open(part);
  }
  int64_t size() const override { return base_.size(); }
  Batch collate(std::vector<Example> examples, std::span<const int64_t> numbers) const override {
    return base_.impl()->collate(std::move(examples), numbers);
  }

 protected:
  Stream base_;
};

class Mapped : public Derived {
 public:
  Mapped(Stream base, std::function<Example(const Example&)> f)
      : Derived(std::move(base)), f_(std::move(f)) {}

  std::unique_ptr<StreamReader> open(const StreamPart& part) const override {
    class Reader : public StreamReader {
     public:
      Reader(std::unique_ptr<StreamReader> base, std::function<Example(const Example&)> f)
          : base_(std::move(base)), f_(std::move(f)) {}
      std::optional<Example> next() override {
        const std::optional<Example> example = base_->next();
        return example ? std::optional(f_(*example)) : std::nullopt;
      }
      bool skip() override { return base_->skip(); }
      int64_t parts() const override { return base_->parts(); }

     private:
      std::unique_ptr<StreamReader> base_;
      std::function<Example(const Example&)> f_;
    };
    return std::make_unique<Reader>(base_.open(part), f_);
  }

 private:
  std::function<Example(const Example&)> f_;
};

class Shuffled : public Derived {
 public:
  Shuffled(Stream base, int64_t buffer, uint64_t seed)
      : Derived(std::move(base)), buffer_(static_cast<size_t>(buffer)), seed_(seed) {}

  std::unique_ptr<StreamReader> open(const StreamPart& part) const override {
    const Philox4 key =
        philox(seed_ ^ static_cast<uint64_t>(part.index) << 32, static_cast<uint64_t>(part.epoch));
    return std::make_unique<Reader>(base_.open(part), buffer_, uint64_t{key.v[0]} << 32 | key.v[1]);
  }

 private:
  class Reader : public StreamReader {
   public:
    Reader(std::unique_ptr<StreamReader> base, size_t buffer, uint64_t key)
        : base_(std::move(base)), buffer_(buffer), key_(key) {}
    std::optional<Example> next() override {
      while (!ended_ && held_.size() < buffer_) {
        std::optional<Example> example = base_->next();
        ended_ = !example;
        if (example) held_.push_back(std::move(*example));
      }
      if (held_.empty()) return {};
      const Philox4 words = philox(key_, drawn_++);
      const uint64_t bits = uint64_t{words.v[0]} << 32 | words.v[1];
      std::swap(held_[bits % held_.size()], held_.back());
      Example example = std::move(held_.back());
      held_.pop_back();
      return example;
    }
    int64_t parts() const override { return base_->parts(); }

   private:
    std::unique_ptr<StreamReader> base_;
    size_t buffer_;
    uint64_t key_;
    uint64_t drawn_ = 0;
    std::vector<Example> held_;
    bool ended_ = false;
  };

  size_t buffer_;
  uint64_t seed_;
};

class CollatedStream : public Derived {
 public:
  CollatedStream(Stream base, Collate collate)
      : Derived(std::move(base)), collate_(std::move(collate)) {}
  Batch collate(std::vector<Example> examples, std::span<const int64_t>) const override {
    return collate_(std::move(examples));
  }

 private:
  Collate collate_;
};

class Chained : public StreamImpl {
 public:
  explicit Chained(std::vector<Stream> streams) : streams_(std::move(streams)) {
    class_names = streams_[0].class_names();
  }
  int64_t size() const override {
    int64_t sum = 0;
    for (const Stream& s : streams_) {
      if (s.size() == kUnknownSize) return kUnknownSize;
      sum += s.size();
    }
    return sum;
  }
  Batch collate(std::vector<Example> examples, std::span<const int64_t> numbers) const override {
    return streams_[0].impl()->collate(std::move(examples), numbers);
  }

  std::unique_ptr<StreamReader> open(const StreamPart& part) const override {
    class Reader : public StreamReader {
     public:
      Reader(std::vector<Stream> streams, const StreamPart& part)
          : streams_(std::move(streams)), part_(part) {}
      std::optional<Example> next() override {
        std::optional<Example> example;
        advance([&] { return (example = now_->next()).has_value(); });
        return example;
      }
      bool skip() override {
        return advance([&] { return now_->skip(); });
      }
      int64_t parts() const override { return part_.count; }

     private:
      bool advance(const std::function<bool()>& came) {
        for (; at_ < streams_.size(); ++at_, now_.reset()) {
          if (!now_) now_ = streams_[at_].open(part_);
          if (part_.index >= now_->parts()) continue;  // it is in part 0
          if (came()) return true;
        }
        return false;
      }

      std::vector<Stream> streams_;
      StreamPart part_;
      size_t at_ = 0;
      std::unique_ptr<StreamReader> now_;
    };
    return std::make_unique<Reader>(streams_, part);
  }

 private:
  std::vector<Stream> streams_;
};

}  // namespace

Batch StreamImpl::collate(std::vector<Example> examples, std::span<const int64_t> numbers) const {
  Stack stack(examples.size());
  for (size_t i = 0; i < examples.size(); ++i) stack.add(examples[i], numbers[i]);
  return stack.batch();
}

Stream::Stream(std::function<Next(int64_t epoch)> begin)
    : impl_(std::make_shared<FromFunction>(std::move(begin))) {}

std::unique_ptr<StreamReader> Stream::open(const StreamPart& part) const {
  check(part.epoch >= 0 && part.count >= 1 && part.index >= 0 && part.index < part.count,
        "data::Stream: expected a part below their count, got {} of {} in epoch {}", part.index,
        part.count, part.epoch);
  return impl_->open(part);
}

Stream Stream::map(std::function<Example(const Example&)> f) const {
  return Stream(std::make_shared<Mapped>(*this, std::move(f)));
}

Stream Stream::shuffle(int64_t buffer, uint64_t seed) const {
  check(buffer >= 1, "data::Stream: a buffer holds at least 1 example, got {}", buffer);
  return Stream(std::make_shared<Shuffled>(*this, buffer, seed));
}

Stream collated(const Stream& stream, Collate collate) {
  return Stream(std::make_shared<CollatedStream>(stream, std::move(collate)));
}

Stream chain(std::vector<Stream> streams) {
  check(!streams.empty(), "data::chain: expected streams, got none");
  return Stream(std::make_shared<Chained>(std::move(streams)));
}

}  // namespace mica::data
