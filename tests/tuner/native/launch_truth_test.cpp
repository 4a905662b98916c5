// Steps whose hosts and devices are known kernel by kernel, beside their predictions: how long they take, and for how
// much of that a device waits for its host. The truth is a queue simulator, which shares nothing with the cost model.

#include <catch2/catch.hpp>
#include <cmath>

#include "../../../bench/costs/gpu_queues.hpp"
#include "tuner/cost_model.hpp"
#include "world.hpp"

namespace trimtab::tuner {
namespace {

using bench::GpuQueues;
using bench::QueuedItem;

constexpr int kOperators = 6;
constexpr std::int32_t kBatch = 32;
constexpr double kKernels = 10;    // of a pass or an update
constexpr double kCallUs = 40;     // of the host, before a pass's first kernel
constexpr double kHostUs = 6;      // for a kernel
constexpr double kMessageUs = 50;  // half of what issues a pass kernel by kernel

struct Job {
  double forward_us = 30;  // of the device, for a sample; a backward pass takes twice as long, an update as long
  bool graph = false;      // its first kernel is issued alone
  std::int32_t microbatch = 1;
  std::int32_t stages = 1;
  std::int32_t replicas = 1;

  [[nodiscard]] double host_us(bool as_graph) const { return kCallUs + kHostUs * (as_graph ? 1 : kKernels); }
  [[nodiscard]] double message_us() const { return graph ? host_us(true) / 2 : kMessageUs; }
};

constexpr double kSentUs = 20;

test::World world_of(const Job& job, LaunchedAs says) {
  test::OperatorTruth of;
  of.cost_key = "layer";
  of.forward_ns = std::llround(1000 * job.forward_us);
  of.backward_ns = 2 * of.forward_ns;
  of.optimizer_ns = of.forward_ns;
  of.parameter_bytes = of.output_bytes = 1000;
  test::World world = test::make_world(std::vector<test::OperatorTruth>(kOperators, of), job.stages * job.replicas,
                                       kBatch, {1, 2, 4, 8, 16, 32});
  test::add_links(world, std::llround(1000 * kSentUs), 0);
  for (const bool graph : {false, true}) {
    for (const CostKind kind : {CostKind::kOperatorForward, CostKind::kOperatorBackward, CostKind::kOptimizerStep}) {
      CostKey key = test::operator_key(kind, "layer", kind == CostKind::kOptimizerStep ? 0 : 1).launch();
      key.protocol = graph ? "graph" : "";
      world.costs.push_back(test::exact_cost(key, std::llround(1000 * job.host_us(graph))));
    }
  }
  world.model.launched_as = says;
  return world;
}

// One rank's program, kernel by kernel.
class Program {
 public:
  Program(const Job& job, std::int32_t stage) : job_(job), stage_(stage) {}

  std::vector<QueuedItem> run() {
    const std::int32_t all = kBatch / (job_.microbatch * job_.replicas);
    const std::int32_t ahead = std::min(all, job_.stages - 1 - stage_);
    for (std::int32_t k = 0; k < all + ahead; ++k) {
      if (k < all) pass(true, k);
      if (k >= ahead) pass(false, k - ahead, k - ahead + 1 == all);
    }
    for (int op = 0; op < kOperators / job_.stages && job_.replicas > 1; ++op) {
      items_.push_back({QueuedItem::Kind::kReceive, 0, 0, gradient(op)});
    }
    items_.push_back({QueuedItem::Kind::kSynchronize});
    for (int op = 0; op < kOperators / job_.stages; ++op) kernels(job_.forward_us);
    items_.push_back({QueuedItem::Kind::kSynchronize});
    return items_;
  }

  double busy_us = 0;  // of the device

 private:
  void pass(bool forward, std::int32_t k, bool last = false) {
    const auto message = [&](std::int32_t boundary) {
      return (std::int64_t{boundary} * 2 + (forward ? 1 : 0)) * kBatch + k;
    };
    const std::int32_t from = forward ? stage_ - 1 : stage_;
    const std::int32_t to = forward ? stage_ : stage_ - 1;
    const auto crosses = [&](std::int32_t boundary) { return boundary >= 0 && boundary + 1 < job_.stages; };
    if (crosses(from)) items_.push_back({QueuedItem::Kind::kReceive, job_.message_us(), 0, message(from)});
    for (int op = 0; op < kOperators / job_.stages; ++op) {
      kernels(job_.forward_us * job_.microbatch * (forward ? 1 : 2));
      if (last && job_.replicas > 1) {
        items_.push_back({QueuedItem::Kind::kSend, job_.message_us(), kSentUs, gradient(op)});
      }
    }
    if (crosses(to)) items_.push_back({QueuedItem::Kind::kSend, job_.message_us(), kSentUs, message(to)});
  }
  void kernels(double us) {
    for (int k = 0; k < kKernels; ++k) {
      const double host = (k == 0 ? kCallUs : 0) + (k == 0 || !job_.graph ? kHostUs : 0);
      items_.push_back({QueuedItem::Kind::kKernel, host, us / kKernels, 0});
    }
    busy_us += us;
  }
  // A sum over the replicas, which all come to it at once.
  [[nodiscard]] static std::int64_t gradient(int op) { return 1'000'000 + op; }

  const Job& job_;
  std::int32_t stage_;
  std::vector<QueuedItem> items_;
};

struct Truth {
  double ms = 0;
  double waits = 0;  // of the first stage's device, as a share of the step
};

Truth truth_of(const Job& job) {
  std::vector<std::vector<QueuedItem>> programs;
  double busy_us = 0;
  for (std::int32_t s = 0; s < job.stages; ++s) {
    Program program(job, s);
    programs.push_back(program.run());
    busy_us = program.busy_us;
  }
  double end = 0;
  for (const bench::RankTimes& times : GpuQueues::run(programs)) end = std::max(end, times.end_us);
  return {end / 1000, 1 - busy_us / end};
}

Prediction predicted(const Job& job, LaunchedAs says) {
  const test::World world = world_of(job, says);
  std::vector<std::int32_t> ends, devices;
  for (std::int32_t s = 1; s <= job.stages; ++s) {
    ends.push_back(kOperators * s / job.stages);
    devices.push_back(job.replicas);
  }
  return NativeCostModel(world.table())
      .evaluate(test::make_plan(world.model, job.microbatch * job.replicas, ends, devices));
}

TEST_CASE("launch-bound, compute-bound and graph steps wait for their hosts for as much as the truth, within 2 %") {
  Job job;
  job.graph = GENERATE(false, true);
  job.microbatch = GENERATE(1, 2, 8, 32);
  const Truth truth = truth_of(job);
  const Prediction said = predicted(job, job.graph ? LaunchedAs::kGraph : LaunchedAs::kKernels);
  INFO((job.graph ? "graph" : "kernels") << ", microbatch " << job.microbatch << ": " << truth.ms << " ms, waits "
                                         << truth.waits << "; told " << said.iteration_ms << " ms");
  CHECK(said.iteration_ms == Approx(truth.ms).epsilon(0.02));
  CHECK(std::abs(said.stages[0].terms.launching_ms / said.iteration_ms - truth.waits) < 0.02);
}

TEST_CASE("launches of the way that the model's program takes count where both were measured") {
  Job job;
  job.graph = true;
  const double truth = truth_of(job).ms;
  CHECK(predicted(job, LaunchedAs::kGraph).iteration_ms == Approx(truth).epsilon(0.02));
  CHECK(predicted(job, LaunchedAs::kKernels).iteration_ms > 1.3 * truth);
}

TEST_CASE("messages between stages take their host as much as half of the shortest launch, and it is said") {
  Job job;
  job.stages = GENERATE(2, 3);
  job.graph = GENERATE(false, true);
  const Truth truth = truth_of(job);
  const Prediction said = predicted(job, job.graph ? LaunchedAs::kGraph : LaunchedAs::kKernels);
  INFO(job.stages << " stages: " << truth.ms << " ms, told " << said.iteration_ms << " ms");
  CHECK(said.iteration_ms == Approx(truth.ms).epsilon(0.02));
  REQUIRE(said.estimated_costs.size() == 1);
  CHECK_THAT(said.estimated_costs[0], Catch::Contains("half of the shortest launch"));
}

TEST_CASE("gradients that are reduced beside the last backward pass are issued, too, within 2 % of the truth") {
  Job job;
  job.replicas = 2;
  job.microbatch = GENERATE(1, 4, 16);
  const Truth truth = truth_of(job);
  const Prediction said = predicted(job, LaunchedAs::kKernels);
  INFO("microbatch " << job.microbatch << ": " << truth.ms << " ms, told " << said.iteration_ms << " ms");
  CHECK(said.iteration_ms == Approx(truth.ms).epsilon(0.02));
  const StepTerms& terms = said.stages[0].terms;
  CHECK(std::abs((terms.idle_ms + terms.gradients_ms) / said.iteration_ms - truth.waits) < 0.02);
}

}  // namespace
}  // namespace trimtab::tuner
