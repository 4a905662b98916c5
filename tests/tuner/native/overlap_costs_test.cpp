// Which measurement a slowdown rests on, step by step, and what is made of it.

#include "native/costs/overlap_costs.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "world.hpp"

namespace trimtab::tuner {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

CostKey key_of(CostKind kind, const std::string& subject, std::int64_t bytes, const std::string& kernel_class = "") {
  CostKey key = test::link_key(kind, bytes, subject == "send_recv" ? 2 : 4);
  key.subject = subject;
  key.kernel_class = kernel_class;
  return key;
}

// `values` of about `slowdown`: half of them a little less, half a little more.
Cost seen(CostKey key, double slowdown, int values = 8, double apart = 0) {
  Cost cost;
  cost.key = std::move(key);
  for (int i = 0; i < values; ++i) {
    cost.statistics.add(static_cast<std::int64_t>((slowdown + (i % 2 == 0 ? apart : -apart)) * 1e6));
  }
  return cost;
}

Cost alpha(const std::string& subject, std::int64_t bytes, const std::string& kernel_class, double slowdown,
           int values = 8) {
  return seen(key_of(CostKind::kOverlapComputation, subject, bytes, kernel_class), slowdown, values);
}
Cost beta(const std::string& subject, std::int64_t bytes, const std::string& kernel_class, double slowdown,
          int values = 8) {
  return seen(key_of(CostKind::kOverlapCommunication, subject, bytes, kernel_class), slowdown, values);
}

OverlapSubject sending(const char* primitive, std::int64_t bytes) {
  return {primitive, bytes, 4, Placement::kIntraNode};
}

Slowdown computing(const std::vector<Cost>& costs, const OverlapSubject& of,
                   ComputationKind kind = ComputationKind::kProducts) {
  return OverlapCosts(costs).beside(of, kind).computation;
}
Slowdown communicating(const std::vector<Cost>& costs, const OverlapSubject& of,
                       ComputationKind kind = ComputationKind::kProducts) {
  return OverlapCosts(costs).beside(of, kind).communication;
}

TEST_CASE("training's slowdown of the kernel class comes first, interpolated in the logarithm of the bytes") {
  const std::vector<Cost> costs{alpha("all_reduce", kMiB, "gemm", 1.2), alpha("all_reduce", 4 * kMiB, "gemm", 1.4),
                                alpha("all_reduce", 2 * kMiB, "elementwise", 3), alpha("all_reduce", kMiB, "", 2)};
  const Slowdown found = computing(costs, sending("all_reduce", 2 * kMiB));
  CHECK(found.basis == OverlapBasis::kTrainingOfClass);
  CHECK(found.factor == Approx(1.3));
  CHECK(found.error == Approx(0).margin(1e-9));
  CHECK(computing(costs, sending("all_reduce", 16 * kMiB)).factor == Approx(1.4));  // a factor of four away
  CHECK_THAT(
      OverlapCosts(costs).rests_on(found),
      Catch::Equals("training: overlap_computation all_reduce bytes=4194304 group_size=4 intra_node beside gemm"));
}

TEST_CASE("algorithms, protocols and channels are pooled by how often they were seen") {
  CostKey ring = key_of(CostKind::kOverlapComputation, "all_reduce", kMiB, "gemm");
  ring.algorithm = "ring";
  ring.channels = 8;
  CostKey tree = ring;
  tree.algorithm = "tree";
  tree.channels = 16;
  const std::vector<Cost> costs{seen(ring, 1.2, 30), seen(tree, 1.6, 10)};
  const Slowdown pooled = computing(costs, sending("all_reduce", kMiB));
  CHECK(pooled.factor == Approx(1.3));
  CHECK(pooled.error > 0);  // the two differ
}

TEST_CASE("an attention is half products and half attention, and how much of each is left open") {
  const std::vector<Cost> costs{alpha("all_reduce", kMiB, "gemm", 1.4), alpha("all_reduce", kMiB, "attention", 1.2),
                                beta("all_reduce", kMiB, "gemm", 2), beta("all_reduce", kMiB, "attention", 1)};
  const Slowdown computed = computing(costs, sending("all_reduce", kMiB), ComputationKind::kAttention);
  CHECK(computed.basis == OverlapBasis::kTrainingOfClass);
  CHECK(computed.factor == Approx(1.3));
  CHECK(computed.error == Approx(0.2 / std::sqrt(12.0)));
  // Half of the time at half of the speed.
  CHECK(communicating(costs, sending("all_reduce", kMiB), ComputationKind::kAttention).factor == Approx(1 / 0.75));
  CHECK(computing(costs, sending("all_reduce", kMiB), ComputationKind::kProducts).factor == Approx(1.4));
}

TEST_CASE("fewer than four values of training say nothing") {
  std::vector<Cost> costs{alpha("all_reduce", kMiB, "gemm", 1.9, 3), alpha("all_reduce", kMiB, "", 1.2)};
  CHECK(computing(costs, sending("all_reduce", kMiB)).basis == OverlapBasis::kBenchmark);
  costs[0] = alpha("all_reduce", kMiB, "gemm", 1.9, 4);
  CHECK(computing(costs, sending("all_reduce", kMiB)).basis == OverlapBasis::kTrainingOfClass);
  // Never a mean of both.
  CHECK(computing(costs, sending("all_reduce", kMiB)).factor == Approx(1.9));
}

TEST_CASE("what was seen beside other classes comes before the benchmark") {
  std::vector<Cost> costs{alpha("all_reduce", kMiB, "normalization", 1.6, 40),
                          alpha("all_reduce", kMiB, "elementwise", 1.2), alpha("all_reduce", kMiB, "", 3),
                          beta("all_reduce", kMiB, "elementwise", 1.2)};
  const Slowdown found = computing(costs, sending("all_reduce", kMiB));
  CHECK(found.basis == OverlapBasis::kTraining);
  CHECK(found.factor == Approx(1.4));  // each class counts alike
  CHECK(found.error >= 0.2);           // either may be it
  CHECK(computing(costs, sending("all_reduce", kMiB), ComputationKind::kUnknown).factor == Approx(1.4));
  CHECK(communicating(costs, sending("all_reduce", kMiB)).factor == Approx(1.2));
  costs.push_back(beta("all_reduce", kMiB, "mixed", 1.7));
  CHECK(communicating(costs, sending("all_reduce", kMiB)).factor == Approx(1.7));
}

TEST_CASE("the benchmark's slowdown comes before what training saw at other sizes") {
  std::vector<Cost> costs{alpha("all_reduce", 1024, "gemm", 1.1), alpha("all_reduce", kMiB, "", 1.2),
                          alpha("all_reduce", 64 * kMiB, "", 1.5)};
  const Slowdown benchmark = computing(costs, sending("all_reduce", 8 * kMiB));
  CHECK(benchmark.basis == OverlapBasis::kBenchmark);
  CHECK(benchmark.factor == Approx(1.35));
  CHECK(benchmark.error > 0);
  CHECK(computing(costs, sending("all_reduce", 256 * kMiB)).factor == Approx(1.5));
  costs.resize(1);
  const Slowdown far = computing(costs, sending("all_reduce", 8 * kMiB));
  CHECK(far.basis == OverlapBasis::kTrainingOtherSize);
  CHECK(far.factor == Approx(1.1));
  // Of a size that nobody has told.
  costs = {alpha("all_reduce", 0, "gemm", 1.4)};
  CHECK(computing(costs, sending("all_reduce", kMiB)).basis == OverlapBasis::kTrainingOtherSize);
}

TEST_CASE("another primitive of the same group stands in, at the size of the same tensor") {
  const std::vector<Cost> costs{alpha("all_reduce", 4 * kMiB, "gemm", 1.4), alpha("all_reduce", kMiB, "", 3)};
  const Slowdown scatter = computing(costs, sending("reduce_scatter", 4 * kMiB));
  CHECK(scatter.basis == OverlapBasis::kOtherPrimitive);
  CHECK(scatter.factor == Approx(1.4));
  CHECK(scatter.error > computing(costs, sending("all_reduce", 4 * kMiB)).error);
  // A quarter of it on each of 4 ranks.
  CHECK(computing(costs, sending("all_gather", kMiB)).factor == Approx(1.4));
  CHECK_FALSE(OverlapCosts(costs).beside({"all_gather", kMiB, 2, Placement::kIntraNode}, {}).computation.measured());
  CHECK_FALSE(OverlapCosts(costs).beside({"all_gather", kMiB, 4, Placement::kInterNode}, {}).computation.measured());
}

Cost stand_in(CostKind kind, const std::string& subject, std::int32_t channels, const std::string& kernel_class,
              double slowdown) {
  CostKey key;
  key.kind = kind;
  key.subject = subject;
  key.bytes = 4 * kMiB * channels;
  key.placement = "intra_node";
  key.channels = channels;
  key.kernel_class = kernel_class;
  return seen(key, slowdown);
}

TEST_CASE("the GPU's stand-ins for collectives are an estimate by the channels that NCCL chose") {
  // As bench/results/gpu_check.md has them of an H100, a product beside thread blocks that copy at a link's pace.
  const CostKind kind = CostKind::kOverlapComputation;
  std::vector<Cost> costs{
      stand_in(kind, "channel_link", 8, "gemm", 1.276), stand_in(kind, "channel_link", 32, "gemm", 1.527),
      stand_in(kind, "channel_memory", 8, "gemm", 1.270), stand_in(kind, "channel_spin", 8, "gemm", 1.238),
      stand_in(kind, "channel_link", 8, "attention", 1.132)};
  const Slowdown any = computing(costs, sending("all_reduce", kMiB));
  CHECK(any.basis == OverlapBasis::kStandIn);
  CHECK_FALSE(any.measured());
  CHECK(any.factor == Approx((1.276 + 1.527) / 2));  // nobody knows how many channels
  CHECK(any.error >= (any.factor - 1) / 2);
  CostKey choice = key_of(CostKind::kCollective, "all_reduce", kMiB);
  choice.algorithm = "ring";
  choice.channels = 8;
  costs.push_back(test::exact_cost(choice, 100000));
  CHECK(computing(costs, sending("all_reduce", kMiB)).factor == Approx(1.276));
  CHECK(computing(costs, sending("all_reduce", kMiB), ComputationKind::kAttention).factor ==
        Approx((1.276 + 1.132) / 2));
  CHECK_THAT(OverlapCosts(costs).rests_on(any), Catch::Contains("estimated from the GPU's stand-in"));
  // Anything of a collective's own counts more.
  costs.push_back(alpha("reduce_scatter", kMiB, "gemm", 1.1));
  CHECK(computing(costs, sending("all_reduce", kMiB)).basis == OverlapBasis::kOtherPrimitive);
}

TEST_CASE("where nothing is measured nothing slows down") {
  const Slowdowns none = OverlapCosts().beside(sending("all_reduce", kMiB), ComputationKind::kProducts);
  CHECK(none.plain() == OverlapSlowdown{});
  CHECK(OverlapCosts().rests_on(none.computation) == "nothing measured");
  // Of one side alone the other stays as it is, and both are not measured.
  const std::vector<Cost> one{alpha("all_reduce", kMiB, "gemm", 1.2)};
  const OverlapSlowdown half =
      OverlapCosts(one).beside(sending("all_reduce", kMiB), ComputationKind::kProducts).plain();
  CHECK(half.computation == Approx(1.2));
  CHECK(half.communication == 1);
  CHECK_FALSE(half.measured);
}

TEST_CASE("two communications at once slow each other and what computes beside both") {
  const std::vector<Cost> costs{beta("all_gather+reduce_scatter", kMiB, "communication", 1.6),
                                beta("reduce_scatter+all_gather", 4 * kMiB, "communication", 1.5),
                                alpha("all_gather+reduce_scatter", 4 * kMiB, "gemm", 1.7),
                                alpha("reduce_scatter", 4 * kMiB, "elementwise", 1.1),
                                alpha("all_gather", kMiB, "elementwise", 1.2)};
  const OverlapCosts overlaps(costs);
  CHECK(overlaps.beside_communication(sending("all_gather", kMiB), "reduce_scatter").factor == Approx(1.6));
  CHECK(overlaps.beside_communication(sending("reduce_scatter", 4 * kMiB), "all_gather").factor == Approx(1.5));
  CHECK_FALSE(overlaps.beside_communication(sending("all_gather", kMiB), "all_reduce").measured());
  // Named in the order in which they were first seen.
  const OverlapSubject scatter = sending("reduce_scatter", 4 * kMiB);
  CHECK(overlaps.beside_both(scatter, "all_gather", kMiB, ComputationKind::kProducts).factor == Approx(1.7));
  // It is no slowdown of a single one.
  CHECK(overlaps.beside(scatter, ComputationKind::kProducts).computation.factor == Approx(1.1));
  const std::vector<Cost> apart(costs.begin() + 3, costs.end());
  CHECK(OverlapCosts(apart).beside_both(scatter, "all_gather", kMiB, ComputationKind::kElementwise).factor ==
        Approx(1.3));
}

TEST_CASE("the published models read the benchmark's all-reduce of the largest size alone") {
  const std::vector<Cost> costs{alpha("all_reduce", kMiB, "", 1.2), alpha("all_reduce", 4 * kMiB, "", 1.3),
                                beta("all_reduce", 2 * kMiB, "", 1.4), alpha("all_reduce", 8 * kMiB, "gemm", 9),
                                beta("all_gather", 8 * kMiB, "", 9)};
  const OverlapSlowdown found = OverlapCosts(costs).of_benchmark(4, Placement::kIntraNode);
  CHECK(found.measured);
  CHECK(found.computation == Approx(1.3));
  CHECK(found.communication == Approx(1.4));
  CHECK_FALSE(OverlapCosts(costs).of_benchmark(2, Placement::kIntraNode).measured);
}

TEST_CASE("training has seen what a benchmark would ask for where it has enough values near its size") {
  const CostKey asked = key_of(CostKind::kOverlapComputation, "all_reduce", 3 * kMiB);
  const auto enough = [&](Cost cost) {
    const std::vector<Cost> costs{std::move(cost)};
    return OverlapCosts(costs).seen_in_training(asked);
  };
  CHECK(enough(alpha("all_reduce", 4 * kMiB, "gemm", 1.2)));
  CHECK_FALSE(enough(alpha("all_reduce", 4 * kMiB, "gemm", 1.2, 3)));
  CHECK_FALSE(enough(alpha("all_reduce", 64 * kMiB, "gemm", 1.2)));
  CHECK_FALSE(enough(beta("all_reduce", 4 * kMiB, "gemm", 1.2)));
  CHECK_FALSE(enough(alpha("all_reduce", 4 * kMiB, "", 1.2)));
}

TEST_CASE("an operator's kind says what its kernels are") {
  CHECK(computation_of("attention") == ComputationKind::kAttention);
  CHECK(computation_of("self_attention_head") == ComputationKind::kAttention);
  CHECK(computation_of("mlp") == ComputationKind::kProducts);
  CHECK(computation_of("head") == ComputationKind::kProducts);
  CHECK(computation_of("mlp-gelu") == ComputationKind::kElementwise);
  CHECK(computation_of("layernorm") == ComputationKind::kNormalization);
  CHECK(computation_of("embedding") == ComputationKind::kLookup);
  CHECK(computation_of("layer") == ComputationKind::kUnknown);
}

}  // namespace
}  // namespace trimtab::tuner
