#include "documents.hpp"

#include <catch2/catch.hpp>

using namespace trimtab;
using namespace trimtab::cli;

TEST_CASE("the only fingerprint needs no choice") {
  CHECK(*choose_fingerprint({"aa11"}, "", nullptr, "costs.db") == "aa11");
}

TEST_CASE("of several fingerprints the beginning of one is enough, if only one begins so") {
  CHECK(*choose_fingerprint({"aa11", "bb22"}, "b", nullptr, "costs.db") == "bb22");
  const auto both = choose_fingerprint({"aa11", "aa22"}, "aa", nullptr, "costs.db");
  REQUIRE_FALSE(both.ok());
  CHECK(both.error().message.find("aa11, aa22") != std::string::npos);
}

TEST_CASE("without a choice the fingerprint that the cluster names is taken") {
  Cluster cluster;
  cluster.nodes = {{.name = "n0", .fingerprint = "bb22"}};
  CHECK(*choose_fingerprint({"aa11", "bb22"}, "", &cluster, "costs.db") == "bb22");
}

TEST_CASE("a choice that is needed and missing lists what there is") {
  const auto none = choose_fingerprint({"aa11", "bb22"}, "", nullptr, "costs.db");
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().kind == ErrorKind::kBadInput);
  CHECK(none.error().message.find("aa11, bb22") != std::string::npos);
  CHECK(none.error().message.find("--fingerprint") != std::string::npos);
  CHECK_FALSE(choose_fingerprint({"aa11"}, "cc", nullptr, "costs.db").ok());
  CHECK_FALSE(choose_fingerprint({}, "", nullptr, "costs.db").ok());
}

TEST_CASE("a list of knobs turns on those and no others") {
  const auto knobs = parse_knobs("pipeline,recompute");
  REQUIRE(knobs.ok());
  CHECK(knobs->pipeline);
  CHECK(knobs->recompute);
  CHECK_FALSE(knobs->microbatch);
  CHECK(parse_knobs("")->data_parallel);
  CHECK(*parse_knobs("") == Knobs{});
  const auto few = parse_knobs("tensor_parallel,sharded,sub_batches,memory_switches");
  REQUIRE(few.ok());
  CHECK((few->tensor_parallel && few->sharded && few->sub_batches && few->memory_switches));
  CHECK_FALSE((few->pipeline || few->data_parallel || few->sliced_microbatches));
  const auto wrong = parse_knobs("pipelin");
  REQUIRE_FALSE(wrong.ok());
  CHECK(wrong.error().message.find("did you mean 'pipeline'") != std::string::npos);
}
