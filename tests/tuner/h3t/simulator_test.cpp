#include <algorithm>
#include <catch2/catch.hpp>

#include "published_vectors.hpp"
#include "random_layers.hpp"

namespace trimtab::tuner::h3t {
namespace {

// Specification of the worked example: three equal layers.
LayerProfile example_layer() {
  LayerProfile layer;
  layer.optimizer_step = 6;
  layer.forward_no_grad = layer.forward_with_grad = 10;
  layer.backward = 20;
  layer.prefetch_hidden = layer.offload_hidden = 3;
  layer.prefetch_parameters = 4;
  layer.gather_parameters = layer.scatter_gradients = 5;
  layer.offload_gradients = 4;
  layer.input = 2;
  layer.partitioned_parameters = layer.partitioned_gradients = 1;
  layer.gathered_parameters = layer.gathered_gradients = 8;
  layer.no_grad = {0, 5};
  layer.with_grad = {20, 22};
  layer.backward_change = {-22, 3};
  return layer;
}

StepOutcome simulated(Fabric fabric, const std::vector<LayerProfile>& layers, const Switching& switches) {
  return SegmentSimulator(layers, fabric).step(switches);
}

}  // namespace

TEST_CASE("a layer has 96 valid combinations of switches, 48 with synchronization forced", "[h3t]") {
  CHECK(all_combinations().size() == 96);
  for (const LayerSwitches& one : all_combinations()) CHECK(one.valid());
  CHECK(all_combinations().back() == kAllOn);
  CHECK(synchronized_combinations().front() == LayerSwitches{});
  CHECK(synchronized_combinations().back() == kAllOn);
}

TEST_CASE("the simulator equals the published one on every vector", "[h3t]") {
  REQUIRE(test::simulated_steps().size() == 30);
  std::size_t index = 0;
  for (const test::SimulatedStep& of : test::simulated_steps()) {
    INFO("sim[" << index++ << "], " << of.layers.size() << " layers");
    REQUIRE(std::ranges::all_of(of.layers, test::can_be));
    const StepOutcome outcome = simulated(of.fabric, of.layers, of.switches);
    CHECK(outcome.runtime == of.runtime);
    CHECK(outcome.peak == of.peak);
  }
}

TEST_CASE("the worked example of three layers", "[h3t]") {
  const std::vector<LayerProfile> layers(3, example_layer());
  Switching switches(3, kAllOn);
  CHECK(simulated(Fabric::kNvlink, layers, switches) == StepOutcome{169, 60, 6});
  CHECK(simulated(Fabric::kPcie, layers, switches).runtime == 172);
  CHECK(simulated(Fabric::kPcie, layers, switches).peak == 59);
  for (LayerSwitches& one : switches) one.economical_forward = one.economical_backward = false;
  CHECK(simulated(Fabric::kNvlink, layers, switches) == StepOutcome{165, 62, 6});
}

TEST_CASE("every task of a step has its place", "[h3t]") {
  const std::vector<LayerProfile> layers(3, example_layer());
  const Switching switches(3, kAllOn);
  std::vector<TaskTime> tasks;
  SegmentSimulator simulator(layers, Fabric::kNvlink);
  const StepOutcome outcome = simulator.step(switches, &tasks);
  const auto begins = [&tasks](Task task) {
    std::vector<Ticks> of;
    for (const TaskTime& one : tasks) {
      if (one.task == task) of.push_back(one.begin);
    }
    return of;
  };
  CHECK(begins(Task::kForwardNoGrad) == std::vector<Ticks>{9, 21, 33});
  CHECK(begins(Task::kForwardWithGrad) == std::vector<Ticks>{52, 82, 112});
  CHECK(begins(Task::kGatherParameters) == std::vector<Ticks>{4, 16, 28, 47, 62, 92});
  CHECK(begins(Task::kScatterGradients) == std::vector<Ticks>{82, 112, 142});
  CHECK(begins(Task::kOffloadGradients) == std::vector<Ticks>{92, 122, 147});
  CHECK(begins(Task::kOffloadHidden) == std::vector<Ticks>{9, 21, 33});
  CHECK(begins(Task::kPrefetchParameters) == std::vector<Ticks>{0, 12, 24, 43, 52, 82});
  CHECK(begins(Task::kPrefetchHidden) == std::vector<Ticks>{47, 62, 96});
  CHECK(begins(Task::kOptimizer).front() == 151);
  Ticks end = 0;
  for (const TaskTime& one : tasks) end = std::max(end, one.end);
  CHECK(end == outcome.runtime);
}

}  // namespace trimtab::tuner::h3t
