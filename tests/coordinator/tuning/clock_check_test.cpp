#include "tuning/trial/clock_check.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "base/random.hpp"

#include "../fake_world.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

// A trial's blocks of two plans, A B B A A B, five steps each after two that warm up, as the coordinator sees them.
struct WatchedTrial {
  double first_ms = 100;
  double second_ms = 70;
  double clock_of_second = 1;  // what a rank's clock shows of a second while the second plan runs
  double clock_of_both = 1;
  double between_ms = 0;  // what the job does between any two steps
  double late_ms = 5;     // by which a message may come
  int pairs = 3;
  double snapshot_ms = 0;  // and after each seventh
  int batch = 1;           // steps whose messages arrive together
  std::uint64_t seed = 1;

  [[nodiscard]] std::string contradiction() const {
    ClockCheck check;
    Random random(seed);
    double now_ms = 0;
    int step = 0;
    for (int block = 0; block < 2 * pairs; ++block) {
      const bool second = block % 4 == 1 || block % 4 == 2;
      check.interrupt();
      check.begin_block();
      for (int i = 0; i < 7; ++i) {
        const double ms = (second ? second_ms : first_ms) * std::exp(0.03 * random.normal());
        now_ms += ms + between_ms + (++step % 7 == 0 ? snapshot_ms : 0);
        const double heard_ms = batch == 1 ? now_ms : std::ceil(step / static_cast<double>(batch)) * batch * 100.0;
        check.add(second, i >= 2, Nanoseconds(std::llround((heard_ms + late_ms * random.uniform()) * 1e6)),
                  ms * clock_of_both * (second ? clock_of_second : 1));
      }
    }
    return check.contradiction();
  }
};

}  // namespace

TEST_CASE("clocks that are right, or wrong under both plans alike, are believed, seeds 1 to 50", "[clock]") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    WatchedTrial trial;
    trial.seed = seed;
    INFO("seed " << seed);
    CHECK(trial.contradiction().empty());
    trial.clock_of_both = 0.4;
    CHECK(trial.contradiction().empty());
    trial.between_ms = 20;
    CHECK(trial.contradiction().empty());
  }
}

TEST_CASE("a clock that is wrong under the candidate alone is found out, seeds 1 to 50", "[clock]") {
  for (const double clock : {0.0001, 0.5, 2.0, 1000.0}) {
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
      WatchedTrial trial;
      trial.clock_of_second = clock;
      trial.seed = seed;
      INFO("clock " << clock << ", seed " << seed);
      CHECK_FALSE(trial.contradiction().empty());
    }
  }
}

TEST_CASE("a clock that hides that the candidate is slower is found out, seeds 1 to 40", "[clock]") {
  for (const double between_ms : {0.0, 20.0}) {
    for (const int pairs : {1, 2, 3, 6}) {
      for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        WatchedTrial trial;
        trial.second_ms = 130;
        trial.clock_of_second = 0.7;  // 91 ms are told
        trial.between_ms = between_ms;
        trial.pairs = pairs;
        trial.seed = seed;
        INFO(between_ms << " ms between steps, " << pairs << " pairs, seed " << seed);
        CHECK_FALSE(trial.contradiction().empty());
      }
    }
  }
}

TEST_CASE("a slower plan under which ranks' clocks run slow is not adopted, seeds 1 to 20", "[clock]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    FakeWorld one(fake_job(), {{"initial", 100, 110}, {"liar", 130, 80}}, seed, 0.03);
    one.faults.clock["liar"] = 0.7;
    one.begin();
    const bool ended = one.run();
    INFO("seed " << seed << "\n" << one.history());
    REQUIRE(ended);
    CHECK(one.state().incumbent.hash == "initial");
    CHECK(one.state().trials.front().reason == FailureReason::kClock);
    CHECK(one.state().failed_hashes.empty());
  }
}

TEST_CASE("late messages, work between steps and snapshots are rarely taken for a wrong clock, seeds 1 to 500",
          "[clock]") {
  int alarms = 0;
  int trials = 0;
  std::string seeds;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    for (const int pairs : {1, 2, 4}) {
      WatchedTrial trial;
      trial.seed = seed;
      trial.pairs = pairs;
      trial.second_ms = seed % 2 == 0 ? 70 : 95;
      trial.between_ms = 15.0 * static_cast<double>(seed % 3);
      trial.late_ms = 20.0 * static_cast<double>(1 + seed % 4);
      trial.snapshot_ms = seed % 5 == 0 ? 400 : 0;
      ++trials;
      if (trial.contradiction().empty()) continue;
      ++alarms;
      seeds += " " + std::to_string(seed);
    }
  }
  INFO(alarms << " false alarms in " << trials << " trials, seeds" << seeds);
  CHECK(alarms <= 2);
}

TEST_CASE("snapshots between steps and messages in one go are no wrong clock", "[clock]") {
  WatchedTrial trial;
  trial.snapshot_ms = 3000;
  CHECK(trial.contradiction().empty());
  trial.snapshot_ms = 0;
  trial.second_ms = 100;
  trial.batch = 7;
  CHECK(trial.contradiction().empty());
}

TEST_CASE("what is too short to be told apart from late messages is believed", "[clock]") {
  WatchedTrial trial;
  trial.first_ms = 5;
  trial.second_ms = 4;
  trial.clock_of_second = 0.3;
  CHECK(trial.contradiction().empty());
}
