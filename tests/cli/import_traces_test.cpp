// `db import` of what others recorded of running jobs: costs with their condition, which price a plan.

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "../schema/published/traces/made_trace.hpp"
#include "scene.hpp"
#include "schema/cost_database.hpp"

using nlohmann::json;
using namespace trimtab::test;

namespace {

// Two ranks' steps, each with an all-reduce of every size, into which rank 1 comes 300 us late.
std::vector<std::string> traces_in(const Scratch& scratch) {
  std::vector<std::string> paths;
  for (int rank = 0; rank < 2; ++rank) {
    MadeTrace trace;
    trace.step(3, 0, 100'000).kernel("gemm", 1, 5);
    double begin = 1000;
    for (long elements = 256; elements <= 16L << 20; elements *= 4) {
      const double transfer = 20 + static_cast<double>(elements) / 20'000;
      const double late = rank == 1 ? 300 : 0;
      trace.collective(kAllReduce, begin + late, transfer + 300 - late, {"allreduce", elements, elements});
      begin += 2000;
    }
    paths.push_back(scratch.file("rank" + std::to_string(rank) + ".json", trace.text(rank, 2)));
  }
  return paths;
}

// The scene's costs as a database without collectives, and its fingerprint.
std::string without_collectives(const Scene& scene) {
  const json all = json::parse(trimtab_program({"db", "export", scene.costs, "--to", "json", "--names"}).out);
  auto database = trimtab::CostDatabase::open(scene.scratch.path("own.db"), trimtab::OpenMode::kCreate);
  REQUIRE(database.ok());
  std::vector<trimtab::Cost> costs;
  for (const json& row : all.at("costs")) {
    auto key = trimtab::parse_cost_key(row.at("cost").dump());
    auto statistics = trimtab::Statistics::decode(row.at("statistics").get<std::string>());
    REQUIRE(key.ok());
    REQUIRE(statistics.ok());
    if (key->kind != trimtab::CostKind::kCollective) costs.push_back({*key, *statistics});
  }
  REQUIRE(database->add_batch({"own", 1}, fingerprint_of("one"), "active", costs).ok());
  return scene.scratch.path("own.db");
}

trimtab::Plan two_replicas() {
  trimtab::Plan plan = even_pipeline();
  trimtab::Segment all;
  all.operators = {0, 6};
  all.dp = 2;
  plan.stages = {{{0, 1}, {all}}};
  return plan;
}

}  // namespace

TEST_CASE("collectives of traces price a plan that nothing priced before, and db show tells their condition") {
  const Scene scene;
  const std::string costs = without_collectives(scene);
  const std::string plan = scene.scratch.file("replicas.json", to_json(two_replicas()));
  const std::vector<std::string> evaluate{"evaluate", "--model", scene.model, "--cluster", scene.cluster,
                                          "--costs",  costs,     "--plan",    plan,        "--json"};
  const Outcome before = trimtab_program(evaluate);
  INFO(before.err);
  CHECK(before.exit_code == 1);
  CHECK(json::parse(before.out)["iteration_ms"].is_null());

  std::vector<std::string> import{"db", "import", "--format", "traces"};
  for (const std::string& path : traces_in(scene.scratch)) import.push_back(path);
  import.insert(import.end(), {costs, "--fingerprint", hash(fingerprint_of("one")), "--json"});
  const Outcome imported = trimtab_program(import);
  INFO(imported.err);
  REQUIRE(imported.exit_code == 0);
  const json profile = json::parse(imported.out)["profiles"][0];
  CHECK(profile["source"] == "import:pytorch-profiler alone ranks-clock");
  CHECK(profile["profile"] == "imported from pytorch-profiler, alone, joined over ranks");
  CHECK(profile["costs"] == 9);

  const Outcome after = trimtab_program(evaluate);
  INFO(after.err);
  CHECK(after.exit_code == 0);
  CHECK(json::parse(after.out)["iteration_ms"].get<double>() > 0);

  const Outcome shown = trimtab_program({"db", "show", costs, "--top", "100"});
  CHECK(shown.out.find("imported from pytorch-profiler, alone, joined over ranks") != std::string::npos);
  CHECK(shown.out.find("collective all_reduce float32 bytes=67108864 group_size=2 intra_node") != std::string::npos);
  // Once more changes nothing.
  CHECK(json::parse(trimtab_program(import).out)["new_profiles"] == 0);
}

TEST_CASE("an import of a file that holds no times says which one does") {
  const Scratch scratch;
  const std::string file = scratch.file("et.json", R"({"schema":"1.1.1-chakra.0.0.4","pid":1,"nodes":[{"id":2}]})");
  const Outcome refused = trimtab_program({"db", "import", "--format", "traces", file, scratch.path("costs.db")});
  CHECK(refused.exit_code == 2);
  CHECK(refused.err.find("an execution trace of PyTorch (Chakra): operators and their order, and no times") !=
        std::string::npos);
  CHECK(refused.err.find("torch.profiler.profile() that was recorded beside it") != std::string::npos);
}
