// What several processes need before they are several: environments, node lists, the store, sums.
#include <unistd.h>

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "mica/distributed/environment.h"
#include "mica/distributed/mpi/reduce.h"
#include "mica/distributed/store.h"
#include "mica/distributed/watch.h"
#include "mica/mica.h"

namespace mica::distributed {
namespace {

template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "nothing was raised";
}

TEST(Environment, IsThatOfWhicheverLauncherThereIs) {
  const Environment alone = environment_from({{"PATH", "/bin"}});
  EXPECT_EQ(alone.launcher, "none");
  EXPECT_EQ(alone.world_size, 1);

  const Environment torch = environment_from({{"RANK", "5"},
                                              {"WORLD_SIZE", "8"},
                                              {"LOCAL_RANK", "1"},
                                              {"MASTER_ADDR", "a.example"},
                                              {"MASTER_PORT", "1234"},
                                              {"OMPI_COMM_WORLD_RANK", "0"},
                                              {"OMPI_COMM_WORLD_SIZE", "1"}});
  EXPECT_EQ(torch.launcher, "torchrun");
  EXPECT_EQ(torch.rank, 5);
  EXPECT_EQ(torch.local_rank, 1);
  EXPECT_EQ(torch.master_address, "a.example");
  EXPECT_EQ(torch.master_port, 1234);

  const Environment open = environment_from({{"OMPI_COMM_WORLD_RANK", "3"},
                                             {"OMPI_COMM_WORLD_SIZE", "4"},
                                             {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                             {"SLURM_PROCID", "0"},
                                             {"SLURM_NTASKS", "1"}});
  EXPECT_EQ(open.launcher, "openmpi");
  EXPECT_TRUE(open.by_mpi());
  EXPECT_EQ(open.rank, 3);
  EXPECT_EQ(open.local_rank, 1);

  const Environment mpich = environment_from({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}});
  EXPECT_EQ(mpich.launcher, "mpich");
  EXPECT_EQ(mpich.world_size, 2);

  const Environment slurm = environment_from({{"SLURM_PROCID", "9"},
                                              {"SLURM_NTASKS", "16"},
                                              {"SLURM_LOCALID", "1"},
                                              {"SLURM_JOB_ID", "123456"},
                                              {"SLURM_STEP_NODELIST", "n[08-11],m2"}});
  EXPECT_EQ(slurm.launcher, "slurm");
  EXPECT_EQ(slurm.master_address, "n08");
  EXPECT_EQ(slurm.master_port, 23456);
}

TEST(Environment, RaisesWhatDoesNotFit) {
  EXPECT_EQ(message_of<Error>([] { environment_from({{"RANK", "two"}, {"WORLD_SIZE", "2"}}); }),
            "distributed: RANK must be a number, got 'two'");
  EXPECT_EQ(message_of<Error>([] { environment_from({{"RANK", "2"}, {"WORLD_SIZE", "2"}}); }),
            "distributed: the environment of torchrun says rank 2 of 2");
  EXPECT_EQ(message_of<Error>([] { environment_from({{"OMPI_COMM_WORLD_RANK", "0"}}); }),
            "distributed: the environment has no OMPI_COMM_WORLD_SIZE");
}

TEST(NodeList, IsExpanded) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(expand_node_list("a"), Names({"a"}));
  EXPECT_EQ(expand_node_list("n[01-03,7],m2,x[9-11]-ib"),
            Names({"n01", "n02", "n03", "n7", "m2", "x9-ib", "x10-ib", "x11-ib"}));
  for (const char* bad : {"", "n[", "n]", "n[3-1]", "n[a]", "a,,b", "n[1-]", "n[0-99999999]"})
    EXPECT_NE(message_of<Error>([&] { expand_node_list(bad); }), "nothing was raised") << bad;
}

TEST(Messages, AreTakenWholeOrRefused) {
  std::string bytes = framed({"set", "", std::string("a\0b", 3)}) + framed({});
  std::string buffer;
  std::vector<std::vector<std::string>> got;
  for (const char c : bytes) {
    buffer += c;
    while (const auto m = take_message(buffer)) got.push_back(*m);
  }
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0][2], std::string("a\0b", 3));
  EXPECT_TRUE(got[1].empty());
  std::string huge = "\xff\xff\xff\xff";
  EXPECT_NE(message_of<IoError>([&] { take_message(huge); }), "nothing was raised");
  std::string cut("\x05\0\0\0\x09\0\0\0x", 9);
  EXPECT_NE(message_of<IoError>([&] { take_message(cut); }), "nothing was raised");
}

class StoreTest : public testing::Test {
 protected:
  std::shared_ptr<Store> open(int rank) {
    return std::make_shared<Store>(std::vector<std::string>{"127.0.0.1"}, server_.port(), "job",
                                   Peer{rank, "host", 100 + rank}, 5);
  }
  static bool eventually(const std::function<bool()>& f) {
    for (int i = 0; i < 100 && !f(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return f();
  }
  StoreServer server_{0, "job"};
};

TEST_F(StoreTest, KeepsValuesAndLetsOthersWaitForThem) {
  const auto a = open(0);
  const auto b = open(1);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    a->set("key", "value");
  });
  EXPECT_EQ(b->get("key", 5), "value");
  later.join();
  EXPECT_EQ(message_of<Error>([&] { b->get("nothing", 0.1); }),
            "distributed: waited 0.1 s for the store's nothing");
}

TEST_F(StoreTest, KnowsItsJob) {
  EXPECT_NE(message_of<IoError>(
                [&] { Store({"127.0.0.1"}, server_.port(), "another", Peer{0, "host", 1}, 0.2); }),
            "nothing was raised");
}

TEST_F(StoreTest, TellsWhoEndedAndWhoFailed) {
  const auto a = open(0);
  auto b = open(1);
  auto c = open(2);
  c->leave();
  EXPECT_TRUE(eventually([&] { return a->left(0).contains(2); }));
  EXPECT_FALSE(a->failure());
  b.reset();
  EXPECT_TRUE(eventually([&] { return a->failure().has_value(); }));
  EXPECT_EQ(*a->failure(),
            "rank 1 (host host, process 101) ended without a word: it was killed, or crashed");
  open(3)->report("it is broken");  // later: what came first stays
  EXPECT_EQ(a->failure()->substr(0, 6), "rank 1");
}

TEST_F(StoreTest, LetsAWatchNameWhoIsMissing) {
  const auto a = open(0);
  const auto b = open(1);
  Watch watch(a, {0, "here", 7}, 0.5, false);
  b->note(0, 3, "all_reduce sum f32[4]");
  EXPECT_TRUE(eventually([&] { return a->statuses().size() == 2; }));
  watch.check_wait({0, 4, "barrier", {0, 1}, 0.1});
  EXPECT_TRUE(eventually([&] {
    for (const Status& s : a->statuses())
      if (s.peer.rank == 1 && !s.words.empty()) return true;
    return false;
  }));
  EXPECT_EQ(message_of<DeviceError>([&] { watch.check_wait({0, 4, "barrier", {0, 1}, 1}); }),
            "distributed: rank 0 (host here, process 7) waited for barrier (call 4 of group 0): "
            "after 1 s rank 1 (host host, process 101), whose last call was all_reduce sum f32[4] "
            "did not come");
  EXPECT_TRUE(watch.broken());
}

TEST_F(StoreTest, LetsAWatchCompareCalls) {
  Watch a(open(0), {0, "here", 7}, 0.5, true);
  Watch b(open(1), {1, "there", 8}, 0.5, true);
  const auto both = [&](const char* of_a, const char* of_b, int64_t number) {
    std::string raised;
    std::thread other(
        [&] { raised = message_of<Error>([&] { b.compare(0, number, of_b, {0, 1}); }); });
    const std::string own = message_of<Error>([&] { a.compare(0, number, of_a, {0, 1}); });
    other.join();
    EXPECT_EQ(own, raised);
    return own;
  };
  EXPECT_EQ(both("barrier", "barrier", 1), "nothing was raised");
  EXPECT_EQ(both("all_reduce sum f32[7]", "barrier", 2),
            "distributed: the ranks of group 0 make different calls: rank 0: call 2: all_reduce "
            "sum f32[7]; rank 1: call 2: barrier");
  EXPECT_NE(message_of<DeviceError>([&] {
              a.compare(0, 3, "barrier", {0, 1});
            }).find("waited for barrier (call 3 of group 0): rank 1 did not come"),
            std::string::npos);
}

TEST(Store, OutlivesRankZeroThatSaidGoodBye) {
  auto server = std::make_unique<StoreServer>(0, "job");
  const auto open = [&](int rank) {
    return std::make_shared<Store>(std::vector<std::string>{"127.0.0.1"}, server->port(), "job",
                                   Peer{rank, "host", 100 + rank}, 5);
  };
  auto a = open(0);
  const auto b = open(1);
  const auto begin = std::chrono::steady_clock::now();
  b->wait_for_leave(1, 0.1);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(100));
  a->leave();
  b->wait_for_leave(1, 5);
  EXPECT_TRUE(b->left(0).contains(0));
  a.reset();
  server.reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_FALSE(b->failure());
}

TEST(ReduceParts, AddsInOrder) {
  const float big = 1e8F;
  const std::vector<float> parts = {big, 1, -big, 1, 1, 1};  // three parts of two
  std::vector<float> out(2);
  reduce_parts(parts.data(), 3, 2, DType::f32, ReduceOp::sum, out.data());
  EXPECT_EQ(out, (std::vector<float>{1, 3}));
  reduce_parts(parts.data(), 3, 2, DType::f32, ReduceOp::max, out.data());
  EXPECT_EQ(out, (std::vector<float>{big, 1}));
  const std::vector<float> with_nan = {NAN, 1, 2, NAN};
  reduce_parts(with_nan.data(), 2, 2, DType::f32, ReduceOp::max, out.data());
  EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[1]));
  const std::vector<int32_t> whole = {3, 4, 5, -6};
  std::vector<int32_t> product(2);
  reduce_parts(whole.data(), 2, 2, DType::i32, ReduceOp::product, product.data());
  EXPECT_EQ(product, (std::vector<int32_t>{15, -24}));
  const bool flags[] = {true, false, true, false};
  bool any[2] = {};
  reduce_parts(flags, 2, 2, DType::boolean, ReduceOp::sum, any);
  EXPECT_TRUE(any[0] && !any[1]);
}

}  // namespace
}  // namespace mica::distributed
