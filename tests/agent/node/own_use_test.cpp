#include "node/own_use.hpp"

#include <catch2/catch.hpp>
#include <vector>

using namespace trimtab;
using namespace trimtab::agent;
using namespace std::chrono_literals;

namespace {

struct Watched {
  // So many seconds in which it takes so many cores.
  void pass(int seconds, double cores, bool ranks_run) {
    for (int i = 0; i < seconds; ++i) {
      now += 1s;
      use.cpu_time += std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(cores));
      watch.step(now, ranks_run);
    }
  }

  OwnBudgets budgets;
  OwnUse use{Bytes{30} << 20, 1000h};
  Nanoseconds now{100h};
  std::vector<std::string> warnings;
  OwnUseWatch watch{budgets, [this] { return std::optional(use); },
                    [this](const std::string& line) { warnings.push_back(line); }};
};

}  // namespace

TEST_CASE("an idle agent that takes more memory than it may says so once, and once more when it is within it again") {
  Watched one;
  one.pass(200, 0.005, false);
  CHECK(one.warnings.empty());
  one.use.memory = Bytes{65} << 20;
  one.pass(200, 0.005, false);
  CHECK(one.watch.over_memory());
  CHECK_FALSE(one.watch.over_cpu());
  REQUIRE(one.warnings.size() == 1);
  CHECK_THAT(one.warnings[0], Catch::Contains("takes 65.0 MiB of memory while no rank runs, and may take 64.0 MiB") &&
                                  Catch::Contains("raise memory_budget"));
  one.use.memory = Bytes{30} << 20;
  one.pass(70, 0.005, false);
  CHECK_FALSE(one.watch.over_memory());
  REQUIRE(one.warnings.size() == 2);
  CHECK(one.warnings[1] == "the agent is within its budget of memory again");
}

TEST_CASE("an agent may take more in a minute in which a rank ran, and not anything") {
  Watched one;
  one.use.memory = Bytes{900} << 20;
  one.pass(200, 0.9, true);
  CHECK(one.warnings.empty());
  one.use.memory = Bytes{1100} << 20;
  one.pass(70, 1.1, true);
  REQUIRE(one.warnings.size() == 2);
  CHECK_THAT(one.warnings[0], Catch::Contains("of memory, and may take 1.00 GiB"));
  CHECK_THAT(one.warnings[1], Catch::Contains("raise cpu_budget"));
  CHECK(one.watch.over_cpu());
}

TEST_CASE("a rank that ran in a part of a minute counts for the whole of it") {
  Watched one;
  one.pass(1, 0, false);
  one.pass(5, 0.5, true);
  one.pass(54, 0, false);
  CHECK(one.warnings.empty());
  one.pass(61, 0.02, false);
  REQUIRE(one.warnings.size() == 1);
  CHECK_THAT(one.warnings[0], Catch::Contains("2.0 % of a core while no rank runs, and may take 1.0 %"));
}

TEST_CASE("a budget that is given holds with ranks and without") {
  const OwnBudgets given{Bytes{2} << 30, 0.25};
  for (const bool ranks_run : {false, true}) {
    CHECK(given.allowed_memory(ranks_run) == Bytes{2} << 30);
    CHECK(given.allowed_cores(ranks_run) == 0.25);
  }
  CHECK(OwnBudgets{}.allowed_memory(false) == Bytes{64} << 20);
  CHECK(OwnBudgets{}.allowed_cores(true) == 1);
}
