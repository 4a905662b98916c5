#include "tuning/clock_check.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "base/random.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

// A trial's blocks of two plans, A B B A A B, five steps each after two that warm up, as the coordinator sees them.
struct Trial {
  double first_ms = 100;
  double second_ms = 70;
  double clock_of_second = 1;  // what a rank's clock shows of a second while the second plan runs
  double clock_of_both = 1;
  double between_ms = 0;   // what the job does between any two steps
  double snapshot_ms = 0;  // and after each seventh
  int batch = 1;           // steps whose messages arrive together
  std::uint64_t seed = 1;

  [[nodiscard]] std::string contradiction() const {
    ClockCheck check;
    Random random(seed);
    double now_ms = 0;
    int step = 0;
    for (const bool second : {false, true, true, false, false, true}) {
      check.interrupt();
      for (int i = 0; i < 7; ++i) {
        const double ms = (second ? second_ms : first_ms) * std::exp(0.03 * random.normal());
        now_ms += ms + between_ms + (++step % 7 == 0 ? snapshot_ms : 0);
        const double heard_ms = batch == 1 ? now_ms : std::ceil(step / static_cast<double>(batch)) * batch * 100.0;
        check.add(second, i >= 2, Nanoseconds(std::llround((heard_ms + 5 * random.uniform()) * 1e6)),
                  ms * clock_of_both * (second ? clock_of_second : 1));
      }
    }
    return check.contradiction();
  }
};

}  // namespace

TEST_CASE("clocks that are right, or wrong under both plans alike, are believed, seeds 1 to 50", "[clock]") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Trial trial;
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
      Trial trial;
      trial.clock_of_second = clock;
      trial.seed = seed;
      INFO("clock " << clock << ", seed " << seed);
      CHECK_FALSE(trial.contradiction().empty());
    }
  }
}

TEST_CASE("snapshots between steps and messages in one go are no wrong clock", "[clock]") {
  Trial trial;
  trial.snapshot_ms = 3000;
  CHECK(trial.contradiction().empty());
  trial.snapshot_ms = 0;
  trial.second_ms = 100;
  trial.batch = 7;
  CHECK(trial.contradiction().empty());
}

TEST_CASE("what is too short to be told apart from late messages is believed", "[clock]") {
  Trial trial;
  trial.first_ms = 5;
  trial.second_ms = 4;
  trial.clock_of_second = 0.3;
  CHECK(trial.contradiction().empty());
}
