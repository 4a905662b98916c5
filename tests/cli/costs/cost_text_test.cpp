#include "costs/cost_text.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace trimtab;
using namespace trimtab::cli;

namespace {

Cost cost(CostKind kind, const std::string& subject, std::initializer_list<std::int64_t> values) {
  Cost result;
  result.key.kind = kind;
  result.key.subject = subject;
  for (const std::int64_t value : values) result.statistics.add(value);
  return result;
}

}  // namespace

TEST_CASE("names of operators, kernels, ranges and plans are redacted, equal ones alike, and collectives' are kept") {
  std::vector<CostRow> rows{{"f", "passive", cost(CostKind::kRange, "secret_project/step", {1})},
                            {"f", "active", cost(CostKind::kOperatorForward, "attention-h256", {1})},
                            {"f", "passive", cost(CostKind::kStepTime, "abcdef", {1})},
                            {"g", "passive", cost(CostKind::kRange, "secret_project/step", {1})},
                            {"g", "passive", cost(CostKind::kKernel, "secret_kernel<64>", {1})},
                            {"g", "active", cost(CostKind::kCollective, "all_reduce", {1})}};
  redact(rows);
  CHECK(rows[0].cost.key.subject == "redacted-1");
  CHECK(rows[1].cost.key.subject == "redacted-2");
  CHECK(rows[2].cost.key.subject == "redacted-3");
  CHECK(rows[3].cost.key.subject == "redacted-1");
  CHECK(rows[4].cost.key.subject == "redacted-4");
  CHECK(rows[5].cost.key.subject == "all_reduce");
  CHECK(to_csv(rows).find("secret") == std::string::npos);
  CHECK(to_json(rows).find("secret") == std::string::npos);
}

TEST_CASE("a name cannot break out of its CSV cell nor run as a formula") {
  const std::string csv = to_csv({{"f", "passive", cost(CostKind::kRange, "a,\"b\"\nc", {1})},
                                  {"f", "passive", cost(CostKind::kRange, "=cmd()", {1})}});
  CHECK(csv.find("\"a,\"\"b\"\"\nc\"") != std::string::npos);
  CHECK(csv.find(",'=cmd()") != std::string::npos);
}

TEST_CASE("an export to JSON carries statistics that decode to the same") {
  const Cost original = cost(CostKind::kOperatorForward, "mlp", {10, 20, 30});
  const auto document = nlohmann::json::parse(to_json({{"f", "active", original}}));
  const auto& row = document["costs"][0];
  CHECK(row["mean"] == 20.0);
  CHECK(row["unit"] == "ns");
  CHECK(*Statistics::decode(row["statistics"].get<std::string>()) == original.statistics);
}

TEST_CASE("a name that is not UTF-8 does not stop an export") {
  const std::string text = to_json({{"f", "passive", cost(CostKind::kRange, "a\xff\xfe", {1})}});
  CHECK(nlohmann::json::accept(text));
}

TEST_CASE("costs within their intervals do not differ and others do, the largest first") {
  const std::vector<Cost> before{
      cost(CostKind::kOperatorForward, "a", {100, 110, 90}), cost(CostKind::kOperatorForward, "b", {100, 101, 99}),
      cost(CostKind::kOperatorForward, "c", {100, 101, 99}), cost(CostKind::kOperatorForward, "gone", {5, 5})};
  const std::vector<Cost> after{
      cost(CostKind::kOperatorForward, "a", {103, 113, 93}), cost(CostKind::kOperatorForward, "b", {120, 121, 119}),
      cost(CostKind::kOperatorForward, "c", {200, 201, 199}), cost(CostKind::kOperatorForward, "new", {5, 5})};
  const auto changes = differences(before, after);
  REQUIRE(changes.size() == 4);
  CHECK(changes[0].key.subject == "c");
  CHECK(changes[1].key.subject == "b");
  CHECK(changes[2].key.subject == "gone");
  CHECK(changes[2].after == nullptr);
  CHECK(changes[3].before == nullptr);
}

TEST_CASE("a cost is printed in its unit") {
  CHECK(format_cost(CostKind::kOperatorForward, 1'500'000) == "1.50 ms");
  CHECK(format_cost(CostKind::kProcessBytes, 1048576) == "1.00 MiB");
  CHECK(format_cost(CostKind::kOverlapComputation, 120'000) == "0.12");
}
