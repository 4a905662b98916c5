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
