#include <limits>

#include <catch2/catch.hpp>

#include "sample_documents.hpp"

using namespace trimtab;
using namespace trimtab::test;

TEST_CASE("every field of a prediction is written") {
  CHECK(to_json(sample_prediction()) == sample_prediction_json());
}

TEST_CASE("a time that nobody can tell is written as null") {
  Prediction prediction;
  prediction.iteration_ms = std::numeric_limits<double>::infinity();
  prediction.interval_low_ms = 1;
  prediction.interval_high_ms = std::numeric_limits<double>::quiet_NaN();
  prediction.stages.resize(1);
  prediction.stages[0].bubble_ms = std::numeric_limits<double>::infinity();
  const std::string text = to_json(prediction);
  CHECK_THAT(text, Catch::Contains("\"iteration_ms\":null,\"interval_ms\":[1.0,null]"));
  CHECK_THAT(text, Catch::Contains("\"bubble_ms\":null"));
}

TEST_CASE("a prediction whose price is taken away has no time left, and keeps its memory") {
  Prediction prediction = sample_prediction();
  REQUIRE(prediction.priced());
  prediction.take_price_away();
  CHECK_FALSE(prediction.priced());
  CHECK_FALSE(prediction.feasible);
  CHECK(prediction.infeasible_reason == kNotPriced);
  CHECK(std::isinf(prediction.interval_low_ms));
  CHECK(std::isinf(prediction.stages[0].forward_ms));
  CHECK(std::isinf(prediction.stages[0].terms.computation_ms));
  CHECK(prediction.stages[0].memory_bytes == sample_prediction().stages[0].memory_bytes);
  CHECK(prediction.missing_costs == sample_prediction().missing_costs);
}
