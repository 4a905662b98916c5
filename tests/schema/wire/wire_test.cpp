#include <string>

#include <catch2/catch.hpp>

#include "wire/agent.pb.h"

using namespace trimtab;

TEST_CASE("a batch of costs comes back from its bytes") {
  wire::FromAgent message;
  wire::CostBatch& batch = *message.mutable_cost_batch();
  batch.set_batch(7);
  batch.set_job("gpt-cpu");
  wire::CostEntry& entry = *batch.add_entries();
  entry.set_key_json("{}");
  entry.set_statistics("1;0;0;0;0;0;");
  entry.set_source("active");
  wire::FromAgent read;
  REQUIRE(read.ParseFromString(message.SerializeAsString()));
  REQUIRE(read.body_case() == wire::FromAgent::kCostBatch);
  CHECK(read.cost_batch().batch() == 7);
  CHECK(read.cost_batch().entries(0).source() == "active");
}

TEST_CASE("the bytes of a hello are those of the first release") {
  wire::FromAgent message;
  wire::Hello& hello = *message.mutable_hello();
  hello.set_protocol_version(1);
  hello.set_node("n0");
  hello.set_devices(2);
  CHECK(message.SerializeAsString() == std::string("\x0a\x08\x08\x01\x1a\x02n0\x28\x02", 10));
}

TEST_CASE("bytes that are cut off are no message") {
  wire::FromAgent message;
  message.mutable_hello()->set_node("a node");
  const std::string bytes = message.SerializeAsString();
  wire::FromAgent read;
  CHECK_FALSE(read.ParseFromString(bytes.substr(0, bytes.size() - 1)));
}
