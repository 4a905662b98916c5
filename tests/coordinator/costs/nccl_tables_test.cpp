#include "costs/nccl_tables.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "../fake_agent.hpp"
#include "schema/nccl_choice.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

CollectiveCosts costs_in_favour_of(const std::string& algorithm) {
  std::vector<Cost> costs;
  for (const char* one : {"ring", "tree"}) {
    Cost& cost = costs.emplace_back();
    cost.key.kind = CostKind::kCollective;
    cost.key.subject = "all_reduce";
    cost.key.bytes = 4096;
    cost.key.group_size = 8;
    cost.key.placement = "intra_node";
    cost.key.algorithm = one;
    cost.key.protocol = "ll";
    for (int i = 0; i < 10; ++i) cost.statistics.add(algorithm == one ? 100 : 200);
  }
  return [costs] { return costs; };
}

CollectiveCosts no_costs() {
  return [] { return std::vector<Cost>(); };
}

CollectiveCosts unreadable() {
  return []() -> Result<std::vector<Cost>> { return unavailable("the database is gone"); };
}

std::ptrdiff_t files_in(const std::string& directory) {
  return std::distance(std::filesystem::directory_iterator(directory), std::filesystem::directory_iterator());
}

}  // namespace

TEST_CASE("a launch keeps its table, whatever is measured after it was sent for the first time", "[nccl]") {
  const TemporaryDirectory directory;
  const std::string place = directory.path() + "/tables";
  const std::string first = nccl_table_of_launch(place, 1, 5, costs_in_favour_of("ring")).value();
  CHECK(nccl_table_id(first).ok());
  CHECK(nccl_table_of_launch(place, 1, 5, costs_in_favour_of("tree")).value() == first);
  CHECK(nccl_table_of_launch(place, 1, 5, no_costs()).value() == first);
  const std::string next = nccl_table_of_launch(place, 1, 6, costs_in_favour_of("tree")).value();
  CHECK(next != first);
  CHECK(nccl_table_of_launch(place, 2, 5, costs_in_favour_of("tree")).value() != first);
}

TEST_CASE("a launch without choices stays without", "[nccl]") {
  const TemporaryDirectory directory;
  CHECK(nccl_table_of_launch(directory.path(), 1, 1, no_costs()).value().empty());
  CHECK(nccl_table_of_launch(directory.path(), 1, 1, costs_in_favour_of("ring")).value().empty());
}

TEST_CASE("a run's oldest tables go", "[nccl]") {
  const TemporaryDirectory directory;
  for (std::uint64_t launch = 1; launch <= 20; ++launch) {
    CHECK(nccl_table_of_launch(directory.path(), 1, launch, no_costs()).ok());
  }
  CHECK(nccl_table_of_launch(directory.path(), 11, 1, no_costs()).ok());
  CHECK(files_in(directory.path()) == 9);
}

TEST_CASE("the tables of runs that are over go, and no other files", "[nccl]") {
  const TemporaryDirectory directory;
  for (const std::int64_t run : {1, 2, 11, 12}) {
    for (const std::uint64_t launch : {1U, 2U}) {
      REQUIRE(nccl_table_of_launch(directory.path(), run, launch, costs_in_favour_of("ring")).ok());
    }
  }
  std::ofstream(directory.path() + "/run-1-launch-3.new") << "half";
  std::ofstream(directory.path() + "/run-book") << "x";
  const std::string kept = nccl_table_of_launch(directory.path(), 2, 1, unreadable()).value();
  keep_nccl_tables_of(directory.path(), {2, 12});
  CHECK(files_in(directory.path()) == 5);
  CHECK(std::filesystem::exists(directory.path() + "/run-book"));
  CHECK(nccl_table_of_launch(directory.path(), 2, 1, unreadable()).value() == kept);
  keep_nccl_tables_of(directory.path() + "/nowhere", {});
}

TEST_CASE("costs are read for a launch's first command alone, and no table is made of costs that cannot be read",
          "[nccl]") {
  const TemporaryDirectory directory;
  const auto failed = nccl_table_of_launch(directory.path(), 1, 1, unreadable());
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.error().message == "the database is gone");
  CHECK(files_in(directory.path()) == 0);
  const std::string first = nccl_table_of_launch(directory.path(), 1, 1, costs_in_favour_of("ring")).value();
  CHECK_FALSE(first.empty());
  CHECK(nccl_table_of_launch(directory.path(), 1, 1, unreadable()).value() == first);
}

TEST_CASE("a table that cannot be kept or understood is no table, and says so", "[nccl]") {
  const TemporaryDirectory directory;
  std::ofstream(directory.path() + "/file") << "x";
  const auto nowhere = nccl_table_of_launch(directory.path() + "/file", 1, 1, no_costs());
  REQUIRE_FALSE(nowhere.ok());
  CHECK_THAT(nowhere.error().message, Catch::Contains("cannot write"));
  std::ofstream(directory.path() + "/run-1-launch-1") << "damaged";
  CHECK_FALSE(nccl_table_of_launch(directory.path(), 1, 1, no_costs()).ok());
}
