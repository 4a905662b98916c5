#include "scene.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "schema/cost_database.hpp"
#include "tuner/needed_costs.hpp"

using namespace trimtab;

namespace {

// Grows with samples and bytes as a real machine's would; no meaning beyond that.
std::int64_t value_of(const CostKey& key, double factor) {
  const double samples = std::max(1, key.samples);
  double value = 1000;
  switch (key.kind) {
    case CostKind::kOperatorForward:
      value = 200'000 + 1'000'000 * samples;
      break;
    case CostKind::kOperatorBackward:
      value = 300'000 + 2'000'000 * samples;
      break;
    case CostKind::kOperatorStoredBytes:
      value = 1'000'000 * samples;
      break;
    case CostKind::kOperatorWorkingBytes:
      value = 400'000 * samples;
      break;
    case CostKind::kOptimizerStep:
      value = 500'000;
      break;
    case CostKind::kCollective:
      value = 100'000 + static_cast<double>(key.bytes) / 2;
      break;
    case CostKind::kPointToPoint:
      value = 50'000 + static_cast<double>(key.bytes) / 4;
      break;
    case CostKind::kProcessBytes:
      value = 50'000'000;
      break;
    default:
      value = 100'000;
  }
  return std::llround(value * factor);
}

std::vector<Cost> all_costs(double factor) {
  std::vector<Cost> costs;
  for (const CostKey& key : tuner::needed_costs(small_model(), two_devices(1 << 30), Knobs{}, {})) {
    Cost cost{key, {}};
    for (const double jitter : {0.99, 1.0, 1.01}) cost.statistics.add(value_of(key, factor * jitter));
    costs.push_back(cost);
  }
  return costs;
}

}  // namespace

Model small_model() {
  Model model;
  model.name = "toy-6";
  model.global_batch = 8;
  for (int i = 0; i < 6; ++i) {
    Operator op;
    op.name = "layer" + std::to_string(i);
    op.kind = "mlp";
    op.layer = i;
    op.cost_key = "mlp-h64";
    op.parameter_bytes = 4'000'000;
    op.activation_bytes = 1'000'000;
    op.output_bytes = 100'000;
    op.forward_flops = 1'000'000;
    model.operators.push_back(op);
  }
  return model;
}

Cluster two_devices(Bytes memory_bytes) {
  Cluster cluster;
  cluster.nodes = {
      {.name = "n0", .fingerprint = hash(fingerprint_of("one")), .devices = 2, .memory_bytes = memory_bytes}};
  cluster.links.resize(1);
  cluster.links[0].level = "intra_node";
  return cluster;
}

Plan even_pipeline() {
  Segment first;
  first.operators = {0, 3};
  Segment second;
  second.operators = {3, 6};
  Plan plan;
  plan.model = "toy-6";
  plan.global_batch = 8;
  plan.microbatch = 2;
  plan.stages = {{{0}, {first}}, {{1}, {second}}};
  return plan;
}

Fingerprint fingerprint_of(const std::string& machine) {
  Fingerprint fingerprint;
  fingerprint.device["cpu"] = machine;
  return fingerprint;
}

Scene::Scene() {
  model = scratch.file("model.json", to_json(small_model()));
  cluster = scratch.file("cluster.json", to_json(two_devices(Bytes{1} << 30)));
  plan = scratch.file("plan.json", to_json(even_pipeline()));
  costs = database("costs.db", "one", 1.0);
}

std::vector<std::string> Scene::with(std::vector<std::string> arguments) const {
  arguments.insert(arguments.end(), {"--model", model, "--cluster", cluster, "--costs", costs});
  return arguments;
}

std::string Scene::database(const std::string& name, const std::string& machine, double factor) const {
  auto database = CostDatabase::open(scratch.path(name), OpenMode::kCreate);
  REQUIRE(database.ok());
  const auto added = database->add_batch({name, 1}, fingerprint_of(machine), "active", all_costs(factor));
  REQUIRE(added.ok());
  return scratch.path(name);
}
