#include "simulated_job.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "world.hpp"

namespace trimtab::coordinator {

SimulationInput small_input(std::uint64_t seed, int nodes) {
  std::vector<tuner::test::OperatorTruth> operators;
  for (int i = 0; i < 8; ++i) {
    tuner::test::OperatorTruth of;
    of.cost_key = i % 3 == 0 ? "light" : "heavy";
    of.forward_ns = i % 3 == 0 ? 4'000'000 : 9'000'000;
    of.forward_fixed_ns = 1'000'000;
    of.backward_ns = 2 * of.forward_ns;
    of.stored_bytes = 20'000;
    of.output_bytes = 5000;
    of.parameter_bytes = 4000;
    operators.push_back(of);
  }
  tuner::test::World world = tuner::test::make_world(operators, 4, 32, {1, 2, 4, 8, 16, 32});
  tuner::test::add_links(world, 50'000, 200'000);
  const int of_node = nodes == 1 ? 4 : 2;
  Node node = world.cluster.nodes[0];
  node.memory_bytes = 1'500'000;
  node.devices = of_node;
  world.cluster.nodes.clear();
  for (int i = 0; i < nodes; ++i) {
    node.name = "n" + std::to_string(i);
    world.cluster.nodes.push_back(node);
  }
  if (nodes > 1) world.cluster.links.push_back({"inter_node", std::nullopt, 1e6, 20});
  SimulationInput input;
  input.model = world.model;
  input.cluster = world.cluster;
  input.costs = world.costs;
  input.seed = seed;
  input.evaluations = 2000;
  input.scenario.truth.way = input.scenario.truth.plan = 0;
  input.job.name = "simulated";
  input.job.mode = JobMode::kAuto;
  input.job.steps = 20'000;
  input.job.trials.deadline = std::chrono::seconds(60);
  input.job.trials.lasting = Nanoseconds{0};  // nothing else runs on its machine
  return input;
}

int Simulated::trials(const std::string& reason) const {
  const nlohmann::json& all = verdict["trials"];
  return static_cast<int>(
      std::count_if(all.begin(), all.end(), [&](const nlohmann::json& one) { return one["reason"] == reason; }));
}

Simulated run(const SimulationInput& input) {
  Simulated done;
  const auto outcome = simulate(input, [&done](double, const std::string& kind, const std::string& text) {
    done.transcript += kind + ": " + text + "\n";
  });
  INFO("seed " << input.seed << "\n" << done.transcript);
  if (!outcome.ok()) FAIL(outcome.error().message);
  done.verdict = nlohmann::json::parse(outcome->simulation_json);
  return done;
}

}  // namespace trimtab::coordinator
