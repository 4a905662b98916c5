#include <cmath>
#include <limits>
#include <string>

#include <catch2/catch.hpp>

#include "sample_documents.hpp"
#include "schema/prediction.hpp"

using namespace trimtab;
using namespace trimtab::test;

TEST_CASE("every field of a prediction is read") {
  const Prediction prediction = parse_prediction(sample(DocumentKind::kPrediction), "").value();
  CHECK(prediction.iteration_ms == 51234.5);
  CHECK(prediction.interval_low_ms == 50700.1);
  CHECK(prediction.interval_high_ms == 51801.9);
  CHECK(prediction.computation_share_ms == 40000.25);
  CHECK(prediction.communication_share_ms == 10000.5);
  CHECK(prediction.overlap_share_ms == 120.25);
  CHECK(prediction.bubble_share_ms == 900.5);
  CHECK_FALSE(prediction.feasible);
  CHECK(prediction.infeasible_reason == "stage 0 needs 812 MiB of 700 MiB");
  REQUIRE(prediction.stages.size() == 1);
  CHECK(prediction.stages[0].backward_ms == 2.25);
  CHECK(prediction.stages[0].optimizer_ms == 0.5);
  CHECK(prediction.stages[0].memory.reserved == 5);
  CHECK(prediction.stages[0].memory.working == 4);
  CHECK(prediction.bottleneck.resource == "memory");
  CHECK(prediction.missing_costs == std::vector<std::string>{"operator_forward a float32"});
  CHECK(prediction.estimated_costs.size() == 1);
}

TEST_CASE("a prediction comes back from its JSON as it was") {
  const std::string text = to_json(parse_prediction(sample(DocumentKind::kPrediction), "").value());
  CHECK(to_json(parse_prediction(text, "").value()) == text);
}

TEST_CASE("a time that nobody can tell is written as null and read as infinity") {
  Prediction prediction;
  prediction.iteration_ms = std::numeric_limits<double>::infinity();
  prediction.interval_low_ms = 1;
  prediction.interval_high_ms = std::numeric_limits<double>::quiet_NaN();
  prediction.stages.resize(1);
  prediction.stages[0].bubble_ms = std::numeric_limits<double>::infinity();
  const std::string text = to_json(prediction);
  CHECK_THAT(text, Catch::Contains("\"iteration_ms\":null,\"interval_ms\":[1.0,null]"));
  const Prediction read = parse_prediction(text, "").value();
  CHECK(std::isinf(read.iteration_ms));
  CHECK(std::isinf(read.interval_high_ms));
  CHECK(std::isinf(read.stages[0].bubble_ms));
  CHECK(to_json(read) == text);
}

TEST_CASE("a prediction whose price is taken away has no time left, and keeps its memory") {
  Prediction prediction = parse_prediction(sample(DocumentKind::kPrediction), "").value();
  REQUIRE(prediction.priced());
  const Bytes bytes = prediction.stages[0].memory_bytes;
  prediction.take_price_away();
  CHECK_FALSE(prediction.priced());
  const Prediction read = parse_prediction(to_json(prediction), "").value();
  CHECK_FALSE(read.priced());
  CHECK_FALSE(read.feasible);
  CHECK(read.infeasible_reason == kNotPriced);
  CHECK(std::isinf(read.interval_low_ms));
  CHECK(std::isinf(read.stages[0].forward_ms));
  CHECK(std::isinf(read.stages[0].terms.computation_ms));
  CHECK(read.stages[0].memory_bytes == bytes);
  CHECK(read.missing_costs == prediction.missing_costs);
}

TEST_CASE("an unsuitable field of a prediction is named by its path") {
  CHECK(parse_prediction("{}", "p").error().message ==
        "p: iteration_ms: expected a number of at least 0, found nothing");
  CHECK(parse_prediction(R"({"iteration_ms":1,"interval_ms":[1]})", "p").error().message ==
        "p: interval_ms: expected an interval [low, high], found an array of 1");
  CHECK(parse_prediction(R"({"iteration_ms":1,"stages":[{"memory":{"states":"x"}}]})", "p").error().message ==
        "p: stages[0].memory.states: expected an integer of at least 0, found \"x\"");
}
