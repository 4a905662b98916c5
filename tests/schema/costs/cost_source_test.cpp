#include "schema/cost_source.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;

namespace {

std::vector<CostSource> all_sources() {
  std::vector<CostSource> all;
  for (const auto kind : {CostSource::Kind::kBenchmark, CostSource::Kind::kTraining, CostSource::Kind::kEstimated}) {
    for (const auto beside : {CostSource::Beside::kNotSaid, CostSource::Beside::kNothing,
                              CostSource::Beside::kCommunication, CostSource::Beside::kComputation}) {
      for (const auto clock : {CostSource::Clock::kNotSaid, CostSource::Clock::kHost, CostSource::Clock::kDevice,
                               CostSource::Clock::kRanks}) {
        for (const bool waiting : {false, true}) {
          for (const bool disturbed : {false, true}) all.push_back({kind, "", beside, clock, waiting, disturbed});
        }
      }
    }
  }
  return all;
}

}  // namespace

TEST_CASE("a source and its text are one") {
  for (const CostSource& source : all_sources()) {
    INFO(to_text(source));
    CHECK(parse_cost_source(to_text(source)) == source);
  }
  const CostSource import{CostSource::Kind::kImported, "microsoft/SuperScaler@53d0036"};
  CHECK(to_text(import) == "import:microsoft/SuperScaler@53d0036");
  CHECK(parse_cost_source(to_text(import)) == import);
}

TEST_CASE("an import says its condition where it was seen in a running job") {
  const CostSource seen = parse_cost_source("import:pytorch-profiler alone device-clock waiting");
  CHECK(seen.kind == CostSource::Kind::kImported);
  CHECK(seen.name == "pytorch-profiler");
  CHECK(seen.beside == CostSource::Beside::kNothing);
  CHECK(seen.waiting);
  CHECK(seen_in_training(seen));
  CHECK(to_text(seen) == "import:pytorch-profiler alone device-clock waiting");
  CHECK(describe(seen) == "imported from pytorch-profiler, alone, device's clock, waiting included");
  // Words that are no conditions are the name's.
  const CostSource named = parse_cost_source("import:my old profile");
  CHECK(named.name == "my old profile");
  CHECK(to_text(named) == "import:my old profile");
  CHECK_FALSE(seen_in_training(named));
}

TEST_CASE("what is taken over says from where, by what it is multiplied, and how unsure that is") {
  const char* const text = "taken-over:0123456789abcdef times=1040000 doubt=30000 alone host-clock";
  const CostSource taken = parse_cost_source(text);
  CHECK(taken.kind == CostSource::Kind::kTakenOver);
  CHECK(taken.name == "0123456789abcdef");
  CHECK(taken.times_ppm == 1'040'000);
  CHECK(taken.doubt_ppm == 30'000);
  CHECK(to_text(taken) == text);
  CHECK(describe(taken) == "taken over from 0123456789abcdef, times 1.040 (± 6 %), alone, host's clock");
  CHECK_FALSE(seen_in_training(taken));
  CHECK_FALSE(condition_unknown(taken));
  for (const char* const wrong : {"taken-over:", "taken-over:f times=x doubt=1", "taken-over:f times=-1",
                                  "taken-over:f times=99999999999", "taken-over:f since=1"}) {
    INFO(wrong);
    CHECK(parse_cost_source(wrong).kind == CostSource::Kind::kUnknown);
    CHECK(to_text(parse_cost_source(wrong)) == wrong);
  }
}

TEST_CASE("a benchmark's pass behind a cover says so") {
  const CostSource covered = parse_cost_source("benchmark alone device-clock covered");
  CHECK(covered.covered);
  CHECK(to_text(covered) == "benchmark alone device-clock covered");
  CHECK(describe(covered) == "benchmark, alone, device's clock, behind a cover");
}

TEST_CASE("what earlier releases wrote is a benchmark, or training of which no condition is known") {
  CHECK(parse_cost_source("active") == CostSource{});
  const CostSource passive = parse_cost_source("passive");
  CHECK(passive.kind == CostSource::Kind::kTraining);
  CHECK(condition_unknown(passive));
  CHECK(describe(passive) == "training, condition unknown");
  CHECK_FALSE(condition_unknown(parse_cost_source("training alone host-clock")));
}

TEST_CASE("a text of another release is kept as it is, and is nobody's") {
  for (const char* text : {"refused", "", "training on-the-moon", "benchmark  host-clock", "Training"}) {
    const CostSource source = parse_cost_source(text);
    INFO(text);
    CHECK(source.kind == CostSource::Kind::kUnknown);
    CHECK(to_text(source) == text);
    CHECK(condition_unknown(source));
  }
}

TEST_CASE("people read the condition") {
  CHECK(describe(parse_cost_source("benchmark alone host-clock disturbed")) ==
        "benchmark, alone, host's clock, disturbed");
  CHECK(describe(parse_cost_source("training ranks-clock")) == "training, joined over ranks");
  CHECK(describe(parse_cost_source("training host-clock waiting")) == "training, host's clock, waiting included");
}
