// An agent's node, or a rank, that goes at any moment of a job's life: from its profiling to its end the job comes to
// an end by itself. The coordinator's own deaths: restart_test.cpp.

#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>
#include <set>
#include <string>

#include "../fake_world.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

// "bad" crashes, so that rollbacks and launches are among the moments.
FakeWorld world() {
  FakeWorld one(fake_job(), {{"initial", 100, 110}, {"best", 70, 80}, {"bad", 60, 75}}, 11, 0.03);
  one.faults.crash = {"bad"};
  return one;
}

int transitions_of_a_run() {
  FakeWorld one = world();
  one.begin();
  REQUIRE(one.run());
  return one.transitions();
}

// The phase in which it happened; empty where the job was over by then.
std::string goes_on(int transition, const std::string& what, const std::function<void(FakeWorld&)>& kill) {
  FakeWorld one = world();
  one.begin();
  const bool reached = one.run([&] { return one.transitions() >= transition; });
  INFO(what << " goes at transition " << transition);
  REQUIRE(reached);
  if (is_final(one.state().phase)) return "";
  const std::string phase(to_string(one.state().phase));
  INFO("in phase " << phase << ", " << to_string(one.state().doing));
  kill(one);
  const bool ended = one.run();
  INFO(one.history());
  CHECK(ended);
  CHECK(one.state().phase == Phase::kFinished);
  CHECK((one.state().incumbent.hash == "best" || one.state().incumbent.hash == "initial"));
  return phase;
}

// All moments where there is time for them.
int stride() {
  return std::getenv("TRIMTAB_TEST_LONG") == nullptr ? 5 : 1;
}

void lose_for(FakeWorld& one, const std::string& node, int rounds) {
  one.lose_node(node);
  (void)one.run([&] { return --rounds < 0; });
  if (!is_final(one.state().phase)) one.return_node(node);
}

}  // namespace

TEST_CASE("a node that is away at any moment of a job's life leaves it to its end") {
  const int transitions = transitions_of_a_run();
  std::set<std::string> phases;
  for (int i = 1; i < transitions; i += stride()) {
    for (const char* node : {"n0", "n1"}) {
      for (const int rounds : {1, 12}) {
        phases.insert(goes_on(i, node, [&](FakeWorld& one) { lose_for(one, node, rounds); }));
      }
    }
  }
  // A search is a moment, which not every stride meets.
  for (const char* phase : {"profiling", "measuring", "trials", "comparing"}) {
    CAPTURE(phase, phases);
    CHECK(phases.contains(phase));
  }
}

TEST_CASE("a rank that is killed at any moment of a job's life leaves it to its end") {
  const int transitions = transitions_of_a_run();
  for (int i = 1; i < transitions; i += stride()) {
    goes_on(i, "a rank", [](FakeWorld& one) { one.faults.crash_at_step = one.state().step + 1; });
  }
}
