// A benchmark whose process somebody kills while a job's costs are measured.

#include <catch2/catch.hpp>
#include <string>

#include "../fake_world.hpp"
#include "base/clock.hpp"
#include "tuning/tuning.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

TEST_CASE("a benchmark that is killed is run again, twice at most, and its first failure is named") {
  TuningState state;
  state.job = fake_job();
  Tuning tuning(state);
  ManualClock clock;
  const auto now = [&] { return Moment{clock.monotonic(), clock.wall()}; };
  const auto asked = [&](const Outcome& told) {
    for (const Action& action : told.actions) {
      if (const auto* benchmark = std::get_if<BenchmarkOn>(&action))
        return benchmark->tag + " " + benchmark->rendezvous;
    }
    return std::string();
  };
  (void)tuning.begin(now());
  (void)tuning.handle(NodesReady{{{"n0", 0, 2}}, ClusterText("{}"), "f"}, now());
  (void)tuning.handle(CommandFinished{"describe", true, "", "{}"}, now());
  (void)tuning.handle(CostsCounted{0, 5, {"{}"}, {5}, "a, b", ""}, now());
  const std::string killed = "rank 1 was ended by signal 9";
  CHECK(asked(tuning.handle(CommandFinished{"benchmark/0/n0", false, killed, "", true}, now())) ==
        "benchmark/0-again-1/n0 benchmark-0-again-1");
  // A coordinator that ends meanwhile goes on with the same one.
  Tuning next(parse_tuning_state(to_json(tuning.state())).value());
  (void)next.resume(now());
  CHECK(asked(next.handle(NodeBack{"n0", {}}, now())) == "benchmark/0-again-1/n0 benchmark-0-again-1");
  CHECK(asked(tuning.handle(CommandFinished{"benchmark/0-again-1/n0", false, "another", "", true}, now())) ==
        "benchmark/0-again-2/n0 benchmark-0-again-2");
  CHECK(asked(tuning.handle(CommandFinished{"benchmark/0-again-2/n0", false, "a third", "", true}, now())).empty());
  clock.advance(std::chrono::minutes(1));
  (void)tuning.handle(CostsCounted{0, 5, {}, {}, "a, b", ""}, now());
  CHECK(tuning.state().phase == Phase::kFailed);
  CHECK(tuning.state().failure == "the job's benchmark command failed: " + killed);
}
