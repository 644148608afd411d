// The core of an inference server: clients put requests into a queue, workers take them out in
// batches, run a compiled network and answer. Prints rate and latencies: server [REQUESTS]
#include <mica/mica.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <future>
#include <mutex>
#include <thread>

using namespace mica;
using Clock = std::chrono::steady_clock;

struct Request {
  Tensor features;  // (64)
  std::promise<Tensor> answer;
};

/// Requests that wait. Workers take as many as there are, up to a batch.
class Queue {
 public:
  void put(Request request) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(request));
    }
    there_is_one_.notify_one();
  }

  /// Empty once the queue is closed and nothing is left.
  std::vector<Request> take(size_t most) {
    std::unique_lock lock(mutex_);
    there_is_one_.wait(lock, [&] { return closed_ || !waiting_.empty(); });
    std::vector<Request> batch;
    while (!waiting_.empty() && batch.size() < most) {
      batch.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    return batch;
  }

  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    there_is_one_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable there_is_one_;
  std::deque<Request> waiting_;
  bool closed_ = false;
};

/// Counts latencies in powers of two of microseconds.
class Histogram {
 public:
  void add(double microseconds) {
    const std::lock_guard lock(mutex_);
    all_.push_back(microseconds);
  }
  double quantile(double q) const {
    std::vector<double> sorted = all_;
    std::ranges::sort(sorted);
    return sorted[static_cast<size_t>(q * static_cast<double>(sorted.size() - 1))];
  }
  void print() const {
    std::vector<size_t> counts(24);
    for (const double us : all_) {
      size_t bin = 0;
      for (double edge = 2; edge < us && bin + 1 < counts.size(); edge *= 2) ++bin;
      ++counts[bin];
    }
    const size_t most = *std::ranges::max_element(counts);
    for (size_t bin = 0; bin < counts.size(); ++bin)
      if (counts[bin] > 0)
        std::printf("%8zu µs %s\n", size_t{2} << bin,
                    std::string(1 + 40 * counts[bin] / most, '#').c_str());
  }

 private:
  std::mutex mutex_;
  std::vector<double> all_;
};

class Server {
 public:
  Server(const nn::Module& net, int workers) : net_(net) {
    net_.eval();
    for (int i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Server() {
    queue_.close();
    for (std::thread& thread : threads_) thread.join();
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::future<Tensor> ask(Tensor features) {
    Request request{std::move(features), {}};
    std::future<Tensor> answer = request.answer.get_future();
    queue_.put(std::move(request));
    return answer;
  }

 private:
  static constexpr int64_t kMostRows = 16;

  void work() {
    for (;;) {
      std::vector<Request> batch = queue_.take(kMostRows);
      if (batch.empty()) return;
      try {
        Tensors rows;
        for (const Request& r : batch) rows.push_back(r.features);
        const Tensor answers = run_(stack(rows));
        for (size_t i = 0; i < batch.size(); ++i)
          batch[i].answer.set_value(answers[static_cast<int64_t>(i)]);
      } catch (...) {
        // The clients get the error; the worker goes on.
        for (Request& r : batch) r.answer.set_exception(std::current_exception());
      }
    }
  }

  nn::Module net_;
  Queue queue_;
  std::vector<std::thread> threads_;
  /// All workers share one function. A batch of 5 runs in the plan for 8 rows.
  decltype(compile(std::function<Tensor(const Tensor&)>(), CompileOptions())) run_ =
      compile(std::function<Tensor(const Tensor&)>([this](const Tensor& x) {
                const NoGrad guard;
                return softmax(net_(x), 1);
              }),
              {.buckets = {1, 2, 4, 8, kMostRows}});
};

int main(int argc, char** argv) try {
  const int requests = argc > 1 ? std::atoi(argv[1]) : 20000;
  if (requests < 1) throw Error("expected a number of requests, at least 1");
  constexpr int kClients = 8;
  manual_seed(0);
  const nn::Sequential net(nn::Linear(64, 128), nn::ReLU(), nn::Linear(128, 128), nn::ReLU(),
                           nn::Linear(128, 10));
  Histogram latencies;
  const Clock::time_point start = Clock::now();
  {
    Server server(net, static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
    std::vector<std::thread> clients;
    for (int c = 0; c < kClients; ++c)
      clients.emplace_back([&, c] {
        for (int i = c; i < requests; i += kClients) {
          const Clock::time_point asked = Clock::now();
          const Tensor answer = server.ask(uniform({64})).get();
          const std::chrono::duration<double, std::micro> took = Clock::now() - asked;
          latencies.add(took.count());
          if (answer.shape() != Shape{10}) throw Error("server: an answer of the wrong shape");
        }
      });
    for (std::thread& client : clients) client.join();
  }
  const std::chrono::duration<double> seconds = Clock::now() - start;
  std::printf("%.0f requests/s; latency %.0f µs in the middle, %.0f µs for 99 of 100\n",
              requests / seconds.count(), latencies.quantile(0.5), latencies.quantile(0.99));
  latencies.print();
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "server: %s\n", e.what());
  return 1;
}
