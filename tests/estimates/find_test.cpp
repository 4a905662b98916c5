#include "estimates/find.hpp"

#include <catch2/catch.hpp>
#include <optional>
#include <random>

#include "find/space.hpp"

namespace trimtab::estimates {

namespace {

constexpr Bytes kGib = Bytes{1} << 30;

struct World {
  Machine machine;
  ModelShape shape;
  FindOptions options;
};

template <typename T>
T one_of(std::mt19937_64& random, std::initializer_list<T> values) {
  return *(values.begin() + std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(random));
}

// A few devices, and a model of which one of them cannot always hold everything.
World small_world(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  World world;
  world.machine.gpu = *gpu_by_name("H100");
  world.machine.gpu.memory = one_of<Bytes>(random, {4, 6, 8, 12, 20}) * kGib;
  world.machine.devices = one_of(random, {1, 2, 3, 4, 6, 8});
  world.machine.devices_per_node = one_of(random, {2, 4});
  world.machine.network.bandwidth = one_of(random, {2e9, 12.5e9, 50e9});
  world.shape = {.name = "small",
                 .layers = one_of(random, {2, 4, 6}),
                 .hidden = 1024,
                 .ffn = 4096,
                 .heads = 8,
                 .kv_heads = one_of(random, {2, 8}),
                 .head_dim = 128,
                 .vocabulary = 32000,
                 .sequence = one_of(random, {2048, 8192})};
  world.options.global_batch = one_of(random, {4, 6, 8});
  world.options.target = one_of(random, {Target::kMegatron, Target::kTorchtitan, Target::kFsdp2, Target::kDeepSpeed});
  world.options.offload = one_of(random, {false, true});
  return world;
}

// Every number for every knob, and in_space() says which of them are plans.
class BruteForce {
 public:
  explicit BruteForce(const World& world) : world_(world) {}

  std::optional<PricedPlan> best() {
    const std::int32_t most = world_.machine.devices;
    UniformPlan plan;
    plan.global_batch = world_.options.global_batch;
    plan.precision = world_.options.precision;
    for (plan.tensor = 1; plan.tensor <= most; ++plan.tensor) {
      for (plan.stages = 1; plan.stages * plan.tensor <= most; ++plan.stages) {
        for (plan.context = 1; plan.context * plan.stages * plan.tensor <= most; ++plan.context) {
          for (plan.replicas = 1; plan.devices() <= most; ++plan.replicas) batches(plan);
        }
      }
    }
    return best_;
  }

 private:
  void batches(UniformPlan plan) {
    for (plan.microbatch = 1; plan.microbatch <= plan.global_batch; ++plan.microbatch) {
      for (plan.chunks = 1; plan.chunks * plan.stages <= world_.shape.layers; ++plan.chunks) {
        for (const Sharded level :
             {Sharded::kNothing, Sharded::kOptimizer, Sharded::kGradients, Sharded::kParameters}) {
          plan.sharded = level;
          for (const bool reshard : {false, true}) {
            plan.reshard = reshard;
            for (plan.sharded_over = 0; plan.sharded_over < plan.replicas * plan.context; ++plan.sharded_over) {
              recomputations(as_run(plan, world_.options.target));
            }
          }
        }
      }
    }
  }

  void recomputations(UniformPlan plan) {
    for (const bool offloaded : {false, true}) {
      plan.offloaded_optimizer = offloaded;
      for (const Recomputed kind : {Recomputed::kNothing, Recomputed::kAttentionCore, Recomputed::kActivations,
                                    Recomputed::kHalfOfProducts, Recomputed::kLayer}) {
        plan.recomputed = kind;
        const std::int32_t layers = std::max(1, layers_of_chunk(plan, world_.shape));
        for (std::int32_t again = kind == Recomputed::kLayer ? 1 : layers; again <= layers; ++again) {
          plan.recomputed_share = static_cast<double>(again) / layers;
          price(plan);
        }
      }
    }
  }

  void price(const UniformPlan& plan) {
    // Of what is not sharded by parameters, one value of `reshard` is as good as the other.
    if (plan.sharded != Sharded::kParameters && !plan.reshard) return;
    if (!in_space(plan, world_.machine, world_.shape, world_.options)) return;
    Machine used = world_.machine;
    used.devices = plan.devices();
    PricedPlan priced{plan, estimate(used, world_.shape, plan)};
    if (priced.estimate.memory.fits < world_.options.least_chance) return;
    if (!best_ || goes_before(priced, *best_)) best_ = priced;
  }

  const World& world_;
  std::optional<PricedPlan> best_;
};

double best_time(const World& world) {
  const Found found = find_plans(world.machine, world.shape, world.options);
  return found.plans.empty() ? std::numeric_limits<double>::infinity() : found.plans.front().estimate.step_s;
}

World llama(std::int32_t devices, std::int32_t batch) {
  World world;
  world.machine = *machine_by_name(std::to_string(devices) + "xH100", "8x400G");
  world.shape = {.name = "llama-8b",
                 .layers = 32,
                 .hidden = 4096,
                 .ffn = 14336,
                 .heads = 32,
                 .kv_heads = 8,
                 .head_dim = 128,
                 .vocabulary = 128256,
                 .sequence = 8192};
  world.options.global_batch = batch;
  return world;
}

constexpr double kNoWorse = 1 + 1e-5;  // ties are told apart by six digits

}  // namespace

TEST_CASE("the plan that is found is the best of all that there are") {
  int fitting = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const World world = small_world(seed);
    CAPTURE(seed, world.machine.devices, world.options.target);
    const Found found = find_plans(world.machine, world.shape, world.options);
    const auto best = BruteForce(world).best();
    REQUIRE(found.plans.empty() == !best.has_value());
    if (!best) continue;
    ++fitting;
    CAPTURE(best->plan.tensor, best->plan.stages, best->plan.chunks, best->plan.replicas, best->plan.microbatch);
    CHECK(found.plans.front().estimate.step_s == Approx(best->estimate.step_s).epsilon(1e-5));
  }
  CHECK(fitting > 20);
}

TEST_CASE("plans that are found are of the space, fit, and stand in order") {
  const World world = small_world(7);
  const Found found = find_plans(world.machine, world.shape, world.options);
  REQUIRE_FALSE(found.plans.empty());
  for (std::size_t i = 0; i < found.plans.size(); ++i) {
    CHECK(in_space(found.plans[i].plan, world.machine, world.shape, world.options));
    CHECK(found.plans[i].estimate.memory.fits >= world.options.least_chance);
    if (i > 0) CHECK_FALSE(goes_before(found.plans[i], found.plans[i - 1]));
  }
}

TEST_CASE("more memory, a faster network and more devices never make the best plan slower") {
  for (std::uint64_t seed = 1; seed <= 80; ++seed) {
    const World world = small_world(seed);
    CAPTURE(seed);
    const double before = best_time(world);
    World roomier = world;
    roomier.machine.gpu.memory = roomier.machine.gpu.memory * 3 / 2;
    CHECK(best_time(roomier) <= before * kNoWorse);
    World faster = world;
    faster.machine.network.bandwidth *= 2;
    CHECK(best_time(faster) <= before * kNoWorse);
    World larger = world;
    larger.machine.devices += 1;
    CHECK(best_time(larger) <= before * kNoWorse);
  }
}

TEST_CASE("a device that nothing can use stays idle") {
  World world = llama(8, 64);
  const double before = best_time(world);
  world.machine.devices = 9;
  const Found found = find_plans(world.machine, world.shape, world.options);
  REQUIRE_FALSE(found.plans.empty());
  CHECK(found.plans.front().plan.devices() == 8);
  CHECK(found.plans.front().estimate.step_s == Approx(before));
}

TEST_CASE("of plans as fast as each other the simplest is first") {
  const World world = llama(8, 64);
  Pricing pricing = usual_pricing();
  pricing.time = [](const Machine&, const ModelShape&, const UniformPlan&) {
    Estimate same;
    same.step_s = 1;
    return same;
  };
  pricing.memory = [](const Machine&, const ModelShape&, const UniformPlan&) {
    MemoryEstimate all;
    all.fits = 1;
    return all;
  };
  const Found found = find_plans(world.machine, world.shape, world.options, pricing);
  const UniformPlan& best = found.plans.front().plan;
  CHECK(best.devices() == 1);
  CHECK(best.sharded == Sharded::kNothing);
  CHECK(best.recomputed == Recomputed::kNothing);
}

TEST_CASE("kinds of recomputation can be held") {
  World world = llama(8, 64);
  world.options.recomputed = {Recomputed::kLayer};
  const Found found = find_plans(world.machine, world.shape, world.options);
  REQUIRE_FALSE(found.plans.empty());
  for (const PricedPlan& one : found.plans) CHECK(one.plan.recomputed == Recomputed::kLayer);
}

TEST_CASE("rules of thumb choose among the plans that fit, and never a better one than the best") {
  const World world = llama(16, 64);
  const Found found = find_plans(world.machine, world.shape, world.options);
  const PricedPlan* least = least_split(found);
  const PricedPlan* node = node_then_stages(found, world.machine);
  REQUIRE(least != nullptr);
  REQUIRE(node != nullptr);
  CHECK(least->plan.devices() == 16);
  CHECK(node->plan.tensor == 8);
  for (const PricedPlan* one : {least, node}) CHECK_FALSE(goes_before(*one, found.plans.front()));
  for (const PricedPlan& one : found.plans) {
    if (one.plan.devices() < 16) continue;
    CHECK(one.plan.tensor * one.plan.stages * one.plan.context >=
          least->plan.tensor * least->plan.stages * least->plan.context);
  }
}

TEST_CASE("where nothing fits, what would help was tried") {
  World world = llama(1, 8);
  const Found found = find_plans(world.machine, world.shape, world.options);
  CHECK(found.plans.empty());
  REQUIRE_FALSE(found.too_large.empty());
  CHECK(found.too_large.front().estimate.memory.fits < world.options.least_chance);
  const std::vector<Remedy> helps = remedies(world.machine, world.shape, world.options);
  REQUIRE_FALSE(helps.empty());
  for (const Remedy& remedy : helps) {
    World other = world;
    if (remedy.kind == Remedy::Kind::kDevices) other.machine.devices = other.machine.devices_per_node = remedy.amount;
    if (remedy.kind == Remedy::Kind::kGpu) other.machine.gpu = *gpu_by_name(remedy.gpu);
    if (remedy.kind == Remedy::Kind::kSequence) other.shape.sequence = remedy.amount;
    if (remedy.kind == Remedy::Kind::kOffload) other.options.offload = true;
    CHECK_FALSE(find_plans(other.machine, other.shape, other.options).plans.empty());
  }
}

TEST_CASE("a page has also what does not fit, on all devices") {
  World world = llama(8, 64);
  world.options.every = true;
  const Found found = find_plans(world.machine, world.shape, world.options);
  REQUIRE_FALSE(found.plans.empty());
  REQUIRE_FALSE(found.too_large.empty());
  for (const PricedPlan& one : found.plans) CHECK(one.plan.devices() == 8);
  for (const PricedPlan& one : found.too_large) {
    CHECK(one.estimate.step_s > 0);
    CHECK(one.estimate.memory.fits < world.options.least_chance);
  }
}

TEST_CASE("targets are known by name") {
  for (const std::string_view name : target_names()) CHECK(name_of(*target_by_name(name)) == name);
  const auto unknown = target_by_name("megatorn");
  REQUIRE_FALSE(unknown.ok());
  CHECK(unknown.error().message.find("megatron, torchtitan") != std::string::npos);
}

}  // namespace trimtab::estimates
