#include "mica/distributed/watch.h"

#include <algorithm>

#include "mica/core/check.h"

namespace mica::distributed {

void Watch::compare(int64_t group, int64_t number, const std::string& words,
                    const std::vector<int>& members) {
  if (!compares_) return;
  const auto key = [&](int rank) { return fmt::format("call:{}:{}:{}", group, number, rank); };
  const std::string own = fmt::format("call {}: {}", number, words);
  store_->set(key(self_.rank), own);
  std::string all;
  bool same = true;
  for (const int rank : members) {
    std::string theirs = own;
    try {
      if (rank != self_.rank) theirs = store_->get(key(rank), timeout_);
    } catch (const Error&) {
      raise({group, number, words, members},
            store_->failure().value_or(fmt::format("rank {} did not come", rank)));
    }
    same = same && theirs == own;
    all += fmt::format("{}rank {}: {}", all.empty() ? "" : "; ", rank, theirs);
  }
  check(same, "distributed: the ranks of group {} make different calls: {}", group, all);
}

void Watch::compare_message(int64_t group, const std::string& what, int other, bool sends) {
  if (!compares_) return;
  const int from = sends ? self_.rank : other;
  const int to = sends ? other : self_.rank;
  std::string key = fmt::format("message:{}:{}:{}", group, from, to);
  int64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = ++messages_[key + (sends ? ":sent" : ":received")];
  }
  key += fmt::format(":{}", number);
  if (sends) return store_->set(key, what);
  std::string theirs;
  try {
    theirs = store_->get(key, timeout_);
  } catch (const Error&) {
    raise({group, number, fmt::format("recv {} from rank {}", what, from), {from}},
          store_->failure().value_or(fmt::format("rank {} did not send", from)));
  }
  check(theirs == what,
        "distributed: rank {} sends {} to rank {}, which expects {} (message {} of group {})", from,
        theirs, to, what, number, group);
}

void Watch::note(int64_t group, int64_t number, const std::string& words) {
  store_->note(group, number, words);
}

void Watch::raise(const Wait& w, const std::string& why) {
  broken_ = true;
  fail<DeviceError>("distributed: {} waited for {} (call {} of group {}): {}", self_.name(),
                    w.words, w.number, w.group, why);
}

std::string Watch::missing(const Wait& w) {
  std::string text;
  const std::string here = fmt::format("{}:{}", w.group, w.number);
  try {
    for (const Status& s : store_->statuses())
      if (s.peer.rank != self_.rank && s.at != here &&
          std::ranges::find(w.members, s.peer.rank) != w.members.end())
        text += fmt::format("{}{}, whose last call was {}", text.empty() ? "" : "; ", s.peer.name(),
                            s.words.empty() ? "none" : s.words);
  } catch (const Error& e) {
    return e.what();
  }
  return text.empty() ? "all ranks are there, and nothing goes on" : text + " did not come";
}

void Watch::check_wait(const Wait& w) {
  if (const std::optional<std::string> failure = store_->failure()) raise(w, *failure);
  // Who is done may well have taken part.
  for (const auto& [rank, begun] : store_->left(w.group))
    if (begun < w.number && std::ranges::find(w.members, rank) != w.members.end())
      raise(w, fmt::format("rank {} has ended", rank));
  if (w.seconds > timeout_) raise(w, fmt::format("after {:.0f} s {}", w.seconds, missing(w)));
}

}  // namespace mica::distributed
