// Lightning's Trainer, read back: LightningCLI's words, over the YAML of its --config (lightning/pytorch/cli.py, 2.0 to
// 2.6). A strategy is a name, or a class with arguments.

#include <algorithm>
#include <array>
#include <cmath>

#include "targets/option_tree.hpp"
#include "targets/plan_readers.hpp"
#include "targets/plan_stages.hpp"
#include "targets/replicas.hpp"
#include "targets/yaml_block.hpp"

namespace trimtab {

namespace {

constexpr const char* kStrategy = "trainer.strategy.class_path";
constexpr const char* kSharding = "trainer.strategy.init_args.sharding_strategy";
constexpr const char* kMesh = "trainer.strategy.init_args.device_mesh";
constexpr const char* kStage = "trainer.strategy.init_args.stage";
constexpr const char* kBucket = "trainer.strategy.init_args.bucket_cap_mb";
constexpr const char* kElements = "trainer.strategy.init_args.reduce_bucket_size";

constexpr std::array<UnsayableMember, 5> kUnsayable{
    {{"trainer.strategy.init_args.cpu_offload", 0, "a plan leaves parameters on the device"},
     {"trainer.strategy.init_args.offload_parameters", 0, "a plan leaves parameters on the device"},
     {"trainer.strategy.init_args.cpu_checkpointing", 0, "a plan exports no activations on the host for Lightning"},
     {"trainer.strategy.init_args.activation_checkpointing", 0, "a plan exports nothing recomputed for Lightning",
      true},
     {"trainer.strategy.init_args.activation_checkpointing_policy", 0,
      "a plan exports nothing recomputed for Lightning", true}}};

class Reader : PlanReader {
 public:
  using PlanReader::PlanReader;

  Result<Plan> plan() {
    TRIMTAB_TRY_STATUS(members_.check_sayable(kUnsayable));
    TRIMTAB_TRY_STATUS(read_ranks());
    TRIMTAB_TRY_STATUS(read_batch());
    TRIMTAB_TRY(std::string name, members_.text(kStrategy, "auto"));
    name = name.substr(name.rfind('.') + 1);
    const bool deepspeed = name == "DeepSpeedStrategy" || name.starts_with("deepspeed");
    const bool ddp = name == "auto" || name == "DDPStrategy" || name == "ddp" || name.starts_with("ddp_");
    if (deepspeed) {
      TRIMTAB_TRY_STATUS(read_zero(name));
    } else if (name == "FSDPStrategy" || name == "fsdp") {
      TRIMTAB_TRY_STATUS(read_sharding());
    } else if (ddp) {
      TRIMTAB_TRY_STATUS(read_bucket());
    } else {
      return members_.refusal(
          "trainer.strategy",
          "a plan for Lightning is of ddp, fsdp, deepspeed or their classes, found " + quoted_text(name));
    }
    return plan_of(replicas_, model_, deepspeed ? "lightning-deepspeed" : "lightning", "Lightning");
  }

 private:
  // A launcher's ranks, else devices of each node.
  Status read_ranks() {
    TRIMTAB_TRY(const std::optional<std::int32_t> nodes, members_.count("trainer.num_nodes"));
    const Json* const devices = members_.find("trainer.devices");
    nodes_ = nodes.value_or(1);
    if (file_.ranks) {
      replicas_.ranks = *file_.ranks;
      return {};
    }
    const bool list = devices != nullptr && devices->is_array();
    if (devices == nullptr || devices->is_string() || *devices == -1) {
      return ranks_needed("trainer.devices does not say how many there are");
    }
    std::optional<std::int32_t> count;
    if (list) count = static_cast<std::int32_t>(devices->size());
    if (!list) {
      TRIMTAB_TRY(count, members_.count("trainer.devices"));
    }
    const std::int64_t all = std::int64_t{count.value_or(0)} * nodes_;
    if (all < 1 || all > 1 << 20) {
      return members_.refusal("trainer.devices",
                              "x trainer.num_nodes: expected 1 to 1048576 ranks, found " + std::to_string(all));
    }
    replicas_.ranks = static_cast<std::int32_t>(all);
    return {};
  }

  Status read_batch() {
    std::optional<std::int32_t> samples;
    for (const char* const path : {"data.batch_size", "data.init_args.batch_size"}) {
      if (samples) break;
      TRIMTAB_TRY(samples, members_.count(path));
    }
    if (!samples) {
      return members_.refusal("data.batch_size",
                              "the Trainer does not say the batch; add what the data module has: "
                              "`-- --data.batch_size N`, of each rank");
    }
    replicas_.samples = *samples;
    TRIMTAB_TRY(const std::optional<std::int32_t> steps, members_.count("trainer.accumulate_grad_batches"));
    replicas_.microbatches = steps.value_or(1);
    return {};
  }

  Status read_bucket() {
    const Json* const said = members_.find(kBucket);
    if (said == nullptr) return {};
    const double bytes = said->is_number() ? said->get<double>() * (1 << 20) : 0;
    if (!(bytes >= 1 && bytes < 1e15) || std::trunc(bytes) != bytes) {
      return members_.refusal(kBucket,
                              "expected a positive number of whole bytes in MiB, found " + quoted_text(dump(*said)));
    }
    replicas_.bucket_bytes = static_cast<std::int64_t>(bytes);
    return {};
  }

  Status read_sharding() {
    TRIMTAB_TRY(const std::string said, members_.text(kSharding, "FULL_SHARD"));
    const bool hybrid = said.find("HYBRID") != std::string::npos;
    if (said == "FULL_SHARD" || said == "HYBRID_SHARD") replicas_.sharded = ShardedLevel::kParameters;
    if (said == "SHARD_GRAD_OP" || said == "_HYBRID_SHARD_ZERO2") replicas_.sharded = ShardedLevel::kGradients;
    if (replicas_.sharded == ShardedLevel::kNone && said != "NO_SHARD") {
      return members_.refusal(kSharding,
                              "expected FULL_SHARD, SHARD_GRAD_OP, NO_SHARD, HYBRID_SHARD or "
                              "_HYBRID_SHARD_ZERO2, found " +
                                  quoted_text(said));
    }
    return hybrid ? read_mesh() : Status{};
  }

  // Without a mesh PyTorch shards in each node.
  Status read_mesh() {
    const Json* const mesh = members_.find(kMesh);
    std::int64_t replicate = nodes_;
    std::int64_t shard = replicas_.ranks / nodes_;
    if (mesh != nullptr) {
      const bool two =
          mesh->is_array() && mesh->size() == 2 && mesh->at(0).is_number_integer() && mesh->at(1).is_number_integer();
      replicate = two ? mesh->at(0).get<std::int32_t>() : 0;
      shard = two ? mesh->at(1).get<std::int32_t>() : 0;
    }
    if (replicate < 1 || shard < 1 || replicate * shard != replicas_.ranks) {
      return members_.refusal(
          kMesh, "expected replicas and shards, such as [2, 4], of the " + std::to_string(replicas_.ranks) +
                     " ranks, found " +
                     (mesh != nullptr ? quoted_text(dump(*mesh)) : std::to_string(nodes_) + " nodes"));
    }
    replicas_.sharded_degree = static_cast<std::int32_t>(shard);
    return {};
  }

  // "deepspeed_stage_2_offload", or the class with its stage, 2 where it does not say.
  Status read_zero(const std::string& name) {
    if (members_.find("trainer.strategy.init_args.config") != nullptr) {
      return members_.refusal("trainer.strategy.init_args.config",
                              "DeepSpeed's own file says the plan; import that: trimtab plan import FILE --ranks N");
    }
    std::int64_t stage = 2;
    const std::size_t digit = name.find_first_of("0123456789");
    if (digit != std::string::npos) stage = name[digit] - '0';
    TRIMTAB_TRY(const std::optional<std::int64_t> said, members_.integer(kStage));
    TRIMTAB_TRY(const bool zero, members_.flag("trainer.strategy.init_args.zero_optimization", true));
    TRIMTAB_TRY(const bool offload, members_.flag("trainer.strategy.init_args.offload_optimizer", false));
    stage = zero ? said.value_or(stage) : 0;
    if (stage < 0 || stage > 3) return members_.refusal(kStage, "expected 0 to 3, found " + std::to_string(stage));
    if (name.ends_with("stage_3_offload") || name.ends_with("nvme_offload")) {
      return members_.refusal("trainer.strategy", "a plan leaves parameters on the device, found " + quoted_text(name));
    }
    replicas_.sharded = static_cast<ShardedLevel>(stage);
    replicas_.offload_optimizer = zero && (offload || name.ends_with("_offload"));
    TRIMTAB_TRY(const std::optional<std::int64_t> elements, members_.integer(kElements));
    if (!elements || stage == 0) return {};
    const std::int64_t width = element_bytes(model_);
    if (*elements < 1 || width == 0 || __builtin_mul_overflow(*elements, width, &replicas_.bucket_bytes)) {
      return members_.refusal(kElements, "expected a positive number of elements of " + quoted_text(model_.dtype) +
                                             ", found " + std::to_string(*elements));
    }
    return {};
  }

  Replicas replicas_;
  std::int32_t nodes_ = 1;
};

// A name, or an object that has a class or arguments alone, as an object of both.
void complete_strategy(Json& trainer) {
  const auto found = trainer.find("strategy");
  if (found == trainer.end()) return;
  if (!found->is_object()) *found = {{"class_path", *found}};
  Json& arguments = (*found)["init_args"];
  if (!arguments.is_object()) arguments = Json::object();
}

void add_word(const std::string& name, Json value, Json& tree) {
  const std::size_t dot = name.find('.');
  const std::string part = name.substr(0, dot);
  if (dot == std::string::npos || (part != "trainer" && part != "data")) return;
  Json& section = tree[part];
  if (!section.is_object()) section = Json::object();
  std::string path = name.substr(dot + 1);
  constexpr std::string_view kOf = "strategy";
  if (part == "data" || !path.starts_with(kOf)) {
    if (path.starts_with("init_args.")) path.erase(0, path.find('.') + 1);
    section[path] = std::move(value);
    return;
  }
  if (path == kOf || path == "strategy.class_path") {
    section[std::string(kOf)] = {{"class_path", std::move(value)}};
    return complete_strategy(section);
  }
  if (!path.starts_with("strategy.")) return;
  if (!section.contains(kOf)) section[std::string(kOf)] = {{"class_path", "auto"}};
  complete_strategy(section);
  path = path.substr(kOf.size() + 1);
  if (path.starts_with("init_args.")) path.erase(0, path.find('.') + 1);
  section[std::string(kOf)]["init_args"][path] = std::move(value);
}

}  // namespace

std::span<const std::string_view> lightning_plan_options() {
  static constexpr std::array<std::string_view, 4> kOptions{"trainer.strategy", "trainer.accumulate-grad-batches",
                                                            "data.batch-size", "data.init-args.batch-size"};
  return kOptions;
}

Result<Json> lightning_tree(const PlanFile& file) {
  TRIMTAB_TRY(Json tree, parse_json_or_yaml(file.text, file.source));
  Json& trainer = tree["trainer"];
  if (!trainer.is_object()) trainer = Json::object();
  complete_strategy(trainer);
  for (auto& [name, value] : option_values(file.options)) add_word(name, std::move(value), tree);
  return tree;
}

Result<Plan> read_lightning_plan(PlanMembers& members, const PlanFile& file, const Model& model) {
  return Reader(members, file, model).plan();
}

}  // namespace trimtab
