#include "schema/cost.hpp"

#include <string>

#include <catch2/catch.hpp>

#include "../documents/sample_documents.hpp"

using namespace trimtab;
using namespace trimtab::test;

TEST_CASE("every kind of cost has a name that leads back to it, and a unit") {
  for (int i = 0; i <= static_cast<int>(CostKind::kKernel); ++i) {
    const auto kind = static_cast<CostKind>(i);
    CHECK(parse_cost_kind(to_string(kind)).value() == kind);
    CHECK_FALSE(unit_of(kind).empty());
  }
  CHECK(to_string(CostKind::kOperatorStoredBytes) == "operator_stored_bytes");
  CHECK(unit_of(CostKind::kOperatorStoredBytes) == "bytes");
  CHECK(unit_of(CostKind::kOverlapCommunication) == "ppm");
  CHECK(unit_of(CostKind::kStepTime) == "ns");
}

TEST_CASE("a kind that is unknown is refused by naming the known ones") {
  CHECK_THAT(parse_cost_kind("forward").error().message,
             Catch::Contains("operator_forward, operator_backward") && Catch::Contains("found \"forward\""));
}

TEST_CASE("a cost key comes back from its JSON as it was") {
  const CostKey key = parse_cost_key(sample(DocumentKind::kCostKey)).value();
  CHECK(key == CostKey{CostKind::kOperatorForward, "attention-h256-t128", "float32", 2, 2, "alternate", 0, 0, ""});
  CHECK(parse_cost_key(to_json(key)).value() == key);
}

TEST_CASE("missing fields of a cost key take the defaults") {
  CHECK(parse_cost_key(R"({"kind":"process_bytes","subject":"process"})").value() ==
        CostKey{CostKind::kProcessBytes, "process", "", 0, 1, "default", 0, 0, ""});
}

TEST_CASE("how a collective was run and beside what comes back, and is left out where nobody knows") {
  CostKey key{CostKind::kOverlapComputation, "all_reduce", "", 0, 1, "default", 1 << 20, 8, "intra_node"};
  CHECK(to_json(key).find("channels") == std::string::npos);
  key.algorithm = "ring";
  key.protocol = "ll128";
  key.channels = 24;
  key.kernel_class = "gemm";
  CHECK(parse_cost_key(to_json(key)).value() == key);
  CHECK(describe(key) ==
        "overlap_computation all_reduce bytes=1048576 group_size=8 intra_node ring ll128 channels=24 beside gemm");
  CHECK_THAT(parse_cost_key(R"({"kind":"collective","subject":"x","channels":-1})").error().message,
             Catch::Contains("channels"));
}

TEST_CASE("communication without a placement is inside a node") {
  const CostKey key = parse_cost_key(R"({"kind":"point_to_point","subject":"send_recv","bytes":65536})").value();
  CHECK(key.placement == "intra_node");
  CostKey built{CostKind::kCollective, "all_reduce", "", 0, 0, "", 1024, 2, ""};
  CHECK(canonical(built) == CostKey{CostKind::kCollective, "all_reduce", "", 0, 1, "default", 1024, 2, "intra_node"});
  built.kind = CostKind::kStepTime;
  CHECK(canonical(built).placement.empty());
}

TEST_CASE("an unsuitable field of a cost key is named") {
  CHECK_THAT(parse_cost_key("{}").error().message, Catch::StartsWith("cost key: kind: expected a text, found nothing"));
  CHECK_THAT(parse_cost_key(R"({"kind":"x","subject":"y"})").error().message,
             Catch::StartsWith("cost key: kind: expected a cost kind"));
  CHECK_THAT(parse_cost_key(R"({"kind":"collective"})").error().message, Catch::StartsWith("cost key: subject: "));
  CHECK_THAT(parse_cost_key(R"({"kind":"collective","subject":"y","bytes":-1})").error().message,
             Catch::StartsWith("cost key: bytes: expected an integer of at least 0, found -1"));
  CHECK_THAT(parse_cost_key("[").error().message, Catch::StartsWith("cost key: line 1"));
}

TEST_CASE("a cost is described by what matters for its kind") {
  CHECK(describe({CostKind::kOperatorForward, "attention-h256-t128", "float32", 2, 1, "default", 0, 0, ""}) ==
        "operator_forward attention-h256-t128 float32 samples=2 tp=1 default");
  CHECK(describe({CostKind::kCollective, "all_reduce", "", 0, 1, "default", 1024, 2, "intra_node"}) ==
        "collective all_reduce bytes=1024 group_size=2 intra_node");
}

TEST_CASE("a range's name that is not UTF-8 becomes JSON all the same") {
  const CostKey key{CostKind::kRange, "caf\xe9", "", 0, 1, "default", 0, 0, ""};
  CHECK(parse_cost_key(to_json(key)).value().subject == "caf\xef\xbf\xbd");
}

TEST_CASE("a key that says how a collective was run, or what ran beside it, is particular") {
  CostKey key = parse_cost_key(R"({"kind":"collective","subject":"all_reduce","bytes":8,"group_size":2})").value();
  CHECK_FALSE(key.particular());
  const auto with = [&key](const auto& set) {
    CostKey other = key;
    set(other);
    return other.particular();
  };
  CHECK(with([](CostKey& one) { one.algorithm = "ring"; }));
  CHECK(with([](CostKey& one) { one.protocol = "ll"; }));
  CHECK(with([](CostKey& one) { one.channels = 2; }));
  CHECK(with([](CostKey& one) { one.kernel_class = "gemm"; }));
}
