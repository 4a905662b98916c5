// torchtitan's configuration, read back: the TOML of --job.config_file (0.1 to 0.2), the JSON that its own
// save_config_file writes, and the overrides of a command, which come before either (torchtitan/config/manager.py).

#include <algorithm>
#include <array>

#include "base/numbers.hpp"
#include "base/text_parts.hpp"
#include "documents/toml_tree.hpp"
#include "targets/plan_layers.hpp"
#include "targets/plan_readers.hpp"
#include "targets/plan_stages.hpp"
#include "targets/torchtitan/torchtitan.hpp"

namespace trimtab {

namespace {

constexpr std::string_view kPolicy = "activation-checkpoint:";
constexpr const char* kPolicyMember = "policy";  // of what is 0.3's, in the tree
constexpr const char* kModules = "parallelism.module_fqns_per_model_part";
constexpr const char* kLayersPerStage = "parallelism.pipeline_parallel_layers_per_stage";
constexpr const char* kFirstLess = "parallelism.pipeline_parallel_first_stage_less_layers";
constexpr const char* kLastLess = "parallelism.pipeline_parallel_last_stage_less_layers";
constexpr const char* kSchedule = "parallelism.pipeline_parallel_schedule";
constexpr const char* kGlobalBatch = "training.global_batch_size";

// --- overrides ---

Json value_of(const std::string& word) {
  if (word == "True" || word == "true") return true;
  if (word == "False" || word == "false") return false;
  if (word == "None") return nullptr;
  if (const auto number = parse_number<std::int64_t>(word)) return *number;
  return word;
}

struct Override {
  std::string section;
  std::string key;
  std::vector<std::string> values;
};

// "--parallelism.tensor_parallel_degree 2", "--training.seq-len=8", "--training.no-enable_cpu_offload".
std::optional<Override> override_at(const std::vector<std::string>& words, std::size_t at) {
  const std::string& word = words[at];
  const std::size_t equals = word.find('=');
  std::string name = word.substr(0, equals);
  const std::size_t dot = name.find('.');
  if (!name.starts_with("--") || dot == std::string::npos) return std::nullopt;
  std::ranges::replace(name, '-', '_');
  Override found{name.substr(2, dot - 2), name.substr(dot + 1), {}};
  if (equals != std::string::npos) found.values.push_back(word.substr(equals + 1));
  for (std::size_t i = at + 1; equals == std::string::npos && i < words.size(); ++i) {
    if (words[i].starts_with("--") || words[i].starts_with(kPolicy)) break;
    found.values.push_back(words[i]);
  }
  return found;
}

Json json_of(const Override& one) {
  if (one.section + "." + one.key == kModules && !(one.values.size() == 1 && one.values[0] == "None")) {
    Json parts = Json::array();
    for (const std::string& value : one.values) parts.push_back(parted(value));
    return parts;
  }
  if (one.values.empty()) return true;
  if (one.values.size() == 1) return value_of(one.values.front());
  return one.values;
}

// Of an object that has none; a tree whose section is something else is refused where that is read.
Json* section_of(Json& tree, const std::string& name) {
  Json& section = tree[name];
  if (section.is_null()) section = Json::object();
  return section.is_object() ? &section : nullptr;
}

void add_overrides(const std::vector<std::string>& words, Json& tree) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with(kPolicy)) {
      tree["activation_checkpoint"] = {{kPolicyMember, words[i].substr(kPolicy.size())}};
    }
    const auto found = override_at(words, i);
    Json* const section = found ? section_of(tree, found->section) : nullptr;
    if (section == nullptr) continue;
    const bool negated = found->key.starts_with("no_") && found->values.empty();
    (*section)[negated ? found->key.substr(3) : found->key] = negated ? Json(false) : json_of(*found);
  }
}

// What 0.3 writes of a policy are its members alone, and nothing of none.
void name_policy(Json& tree) {
  const auto found = tree.find("activation_checkpoint");
  if (found == tree.end()) return;
  if (found->is_null()) *found = {{kPolicyMember, "none"}};
  if (!found->is_object() || found->contains("mode") || found->contains(kPolicyMember)) return;
  if (!found->contains("preserve_rng_state")) return;
  const bool budget = found->contains("memory_budget");
  const bool selective = found->contains("force_recompute_mm_shapes_by_fqns");
  (*found)[kPolicyMember] = budget ? "memory-budget" : selective ? "selective" : "full";
}

// --- the plan ---

constexpr std::array<UnsayableMember, 7> kUnsayable{
    {{"training.enable_cpu_offload", 0, "a plan exports nothing on the host for torchtitan"},
     {"parallelism.expert_parallel_degree", 1, "a plan has no experts"},
     {"parallelism.expert_tensor_parallel_degree", 1, "a plan has no experts"},
     {"experimental.context_parallel_degree", 1, "since 0.1 it stands in [parallelism]"},
     {"experimental.pipeline_parallel_degree", 1, "since 0.1 it stands in [parallelism]"},
     {"fault_tolerance.enable", 0, "a plan has no groups of replicas that come and go"},
     {"parallelism.pipeline_parallel_split_points", 0, "give parallelism.module_fqns_per_model_part", true}}};

// Of the sections that say plans, what says nothing of one, in 0.1 to 0.3. Any other member may be a plan's.
struct Neutral {
  std::string_view section;
  std::string_view names;
};
constexpr std::array<Neutral, 3> kNeutral{{{"training.", R"(
compile dataloader dataset dataset_path debug_moe_force_load_balance deterministic disable_cuda_graphs dtype gc_debug
gc_freq max_norm mixed_precision_param mixed_precision_reduce seed steps
)"},
                                           {"parallelism.", R"(
context_parallel_load_balancer context_parallel_ptrr_mask_key context_parallel_rotate_method disable_loss_parallel
enable_async_tensor_parallel enable_compiled_autograd enable_fsdp_symm_mem expert_parallel_comm_backend
fsdp_reshard_after_forward module_fqns_per_model_part pipeline_parallel_expert_parallel_overlap
pipeline_parallel_first_stage_less_layers pipeline_parallel_last_stage_less_layers pipeline_parallel_layers_per_stage
pipeline_parallel_microbatch_size pipeline_parallel_schedule pipeline_parallel_schedule_csv spmd_backend
)"},
                                           {"activation_checkpoint.", R"(
debug determinism_check early_stop force_recompute_mm_shapes_by_fqns memory_budget
per_op_sac_force_recompute_mm_shapes_by_fqns preserve_rng_state visualize_memory_budget_pareto
)"}}};

struct Degrees {
  std::int32_t replicate = 1;
  std::int32_t shard = 1;
  std::int32_t tp = 1;
  std::int32_t cp = 1;
  std::int32_t pp = 1;
  [[nodiscard]] std::int32_t dp() const { return replicate * shard; }
};

class Reader : PlanReader {
 public:
  using PlanReader::PlanReader;

  Result<Plan> plan() {
    TRIMTAB_TRY_STATUS(members_.check_sayable(kUnsayable));
    TRIMTAB_TRY_STATUS(read_degrees());
    TRIMTAB_TRY(parts_, layers_of(model_));
    Plan plan;
    plan.model = model_.name;
    TRIMTAB_TRY(plan.schedule.kind, schedule());
    TRIMTAB_TRY(counts_, layers_by_stage(plan.schedule.kind));
    TRIMTAB_TRY_STATUS(read_batch(plan));
    Segment like;
    TRIMTAB_TRY(like.sharded, level());
    like.dp = degrees_.dp();
    like.tp = degrees_.tp;
    like.cp = degrees_.cp;
    like.sharded_degree = degrees_.replicate > 1 && like.sharded != ShardedLevel::kNone ? degrees_.shard : 0;
    TRIMTAB_TRY(const std::vector<bool> recomputed, recomputed_layers());
    TRIMTAB_TRY_STATUS(read_sequences(plan));
    TRIMTAB_TRY(plan.stages, plan_stages(
                                 model_, parts_, {counts_, degrees_.pp, degrees_.dp() * degrees_.tp * degrees_.cp},
                                 [&](std::int32_t op) {
                                   return OperatorPlan{like, is_in(op, recomputed)};
                                 },
                                 "parallelism.pipeline_parallel_degree"));
    TRIMTAB_TRY_STATUS(check_known());
    TRIMTAB_TRY_STATUS(check_import(plan, model_, python_ ? "torchtitan" : "torchtitan-0.2", "torchtitan"));
    return plan;
  }

 private:
  [[nodiscard]] std::int32_t layers() const { return static_cast<std::int32_t>(parts_.layers.size()); }

  [[nodiscard]] bool is_in(std::int32_t op, const std::vector<bool>& recomputed) const {
    const bool inside = op >= parts_.before.end && op < parts_.layers.back().end;
    return inside && recomputed[static_cast<std::size_t>((op - parts_.before.end) / parts_.layers.front().size())];
  }

  // A command without a file has a configuration that only Python knows.
  Error unknown(const char* path) const {
    return bad_input("--" + std::string(path) +
                     ": the command does not say it, and the configuration in Python is not run; add it, or give the "
                     "JSON that torchtitan writes with --debug.save_config_file");
  }

  Result<std::int32_t> degree(const char* path, std::int32_t fallback) {
    TRIMTAB_TRY(const std::optional<std::int32_t> value, members_.count(path));
    if (!value && !complete_) return unknown(path);
    return value.value_or(fallback);
  }

  // -1 is torchtitan's word for "what is left".
  Result<std::optional<std::int32_t>> left_over(const char* path) {
    const Json* const found = members_.find(path);
    if (found == nullptr && !complete_) return unknown(path);
    if (found == nullptr || *found == -1) return std::optional<std::int32_t>{};
    return members_.count(path);
  }

  Status check_known() {
    for (const std::string& path : members_.unread()) {
      const auto section =
          std::ranges::find_if(kNeutral, [&](const Neutral& one) { return path.starts_with(one.section); });
      if (section == kNeutral.end()) continue;
      const std::string_view name = std::string_view(path).substr(section->section.size());
      if (is_listed(section->names, name.substr(0, name.find('.')))) continue;
      return members_.refusal(path, "torchtitan 0.1 to 0.3 have no such member there, so it may say another plan");
    }
    return {};
  }

  Status read_degrees() {
    TRIMTAB_TRY(degrees_.replicate, degree("parallelism.data_parallel_replicate_degree", 1));
    TRIMTAB_TRY(degrees_.tp, degree("parallelism.tensor_parallel_degree", 1));
    TRIMTAB_TRY(degrees_.cp, degree("parallelism.context_parallel_degree", 1));
    TRIMTAB_TRY(degrees_.pp, degree("parallelism.pipeline_parallel_degree", 1));
    TRIMTAB_TRY(const std::optional<std::int32_t> shard, left_over("parallelism.data_parallel_shard_degree"));
    std::int64_t others = degrees_.replicate;
    for (const std::int32_t one : {degrees_.tp, degrees_.cp, degrees_.pp, shard.value_or(1)}) {
      if (others < std::int64_t{1} << 31) others *= one;
    }
    if (!file_.ranks && !shard) return ranks_needed("parallelism.data_parallel_shard_degree is what is left of them");
    const std::int64_t ranks = file_.ranks ? *file_.ranks : others;
    if (others < std::int64_t{1} << 30 && (shard ? others == ranks : ranks % others == 0)) {
      degrees_.shard = shard ? *shard : static_cast<std::int32_t>(ranks / others);
      return {};
    }
    return members_.refusal(
        "parallelism", "replicate, shard, context, tensor and pipeline degrees must be " + std::to_string(ranks) +
                           " ranks together, found " + std::to_string(degrees_.replicate) + " x " +
                           (shard ? std::to_string(*shard) : "the rest") + " x " + std::to_string(degrees_.cp) + " x " +
                           std::to_string(degrees_.tp) + " x " + std::to_string(degrees_.pp));
  }

  Result<ScheduleKind> schedule() {
    if (degrees_.pp == 1) return ScheduleKind::k1F1B;
    TRIMTAB_TRY(const std::string table, members_.text("parallelism.pipeline_parallel_schedule_csv", ""));
    if (!table.empty()) {
      return members_.refusal("parallelism.pipeline_parallel_schedule_csv", "a plan has no schedule of its own");
    }
    if (members_.find(kSchedule) == nullptr && !complete_) return unknown(kSchedule);
    TRIMTAB_TRY(std::string name, members_.text(kSchedule, "1F1B"));
    const std::string found = quoted_text(name);
    for (char& letter : name) letter = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    if (name == "1f1b") return ScheduleKind::k1F1B;
    if (name == "gpipe") return ScheduleKind::kGPipe;
    if (name == "interleaved1f1b") return ScheduleKind::kInterleaved;
    return members_.refusal(kSchedule, "a plan says 1F1B, GPipe and Interleaved1F1B, found " + found);
  }

  // [["tok_embeddings", "layers.0"], ["layers.1", "norm", "output"]]
  Result<std::vector<std::int32_t>> named_layers(const Json& parts) {
    std::vector<std::int32_t> counts;
    std::int32_t next = 0;
    for (const Json& part : parts.is_array() ? parts : Json::array()) {
      counts.push_back(0);
      for (const Json& module : part.is_array() ? part : Json::array()) {
        if (!module.is_string() || !module.get<std::string>().starts_with("layers.")) continue;
        if (module != "layers." + std::to_string(next)) {
          return members_.refusal(kModules, "a plan has the layers in order, layers." + std::to_string(next) +
                                                " was expected, found " + quoted_text(dump(module)));
        }
        ++next;
        ++counts.back();
      }
    }
    if (next == layers() && std::ssize(counts) % degrees_.pp == 0) return counts;
    return members_.refusal(kModules, "expected the model's " + std::to_string(layers()) + " layers in a multiple of " +
                                          std::to_string(degrees_.pp) + " parts, found " + std::to_string(next) +
                                          " in " + std::to_string(counts.size()));
  }

  Result<std::vector<std::int32_t>> layers_by_stage(ScheduleKind kind) {
    if (degrees_.pp == 1) return std::vector<std::int32_t>{layers()};
    const Json* const parts = members_.find(kModules);
    TRIMTAB_TRY(const std::optional<std::int32_t> each, members_.count(kLayersPerStage));
    TRIMTAB_TRY(const std::optional<std::int64_t> first, members_.integer(kFirstLess));
    TRIMTAB_TRY(const std::optional<std::int64_t> last, members_.integer(kLastLess));
    if (parts != nullptr) return named_layers(*parts);
    if (!complete_) return unknown(kModules);
    const std::int64_t first_less = first.value_or(1);
    const std::int64_t last_less = last.value_or(1);
    if (first_less < 0 || last_less < 0 || first_less > layers() || last_less > layers()) {
      return members_.refusal(kFirstLess, "this and that of the last stage must be layers of the model's");
    }
    std::int64_t stages = std::int64_t{degrees_.pp} * (kind == ScheduleKind::kInterleaved ? 2 : 1);
    if (each) stages = (layers() + first_less + last_less + *each - 1) / *each;
    const bool single = kind != ScheduleKind::kInterleaved;
    if (stages > layers() + first_less + last_less || stages % degrees_.pp != 0 ||
        (single ? stages != degrees_.pp : stages < 2 * std::int64_t{degrees_.pp})) {
      return members_.refusal(kLayersPerStage, "makes " + std::to_string(stages) + " stages of " +
                                                   std::to_string(layers()) + " layers, which " +
                                                   std::to_string(degrees_.pp) +
                                                   " pipeline ranks cannot have under this schedule");
    }
    const auto counts = weighted_layers(static_cast<std::int32_t>(stages), layers(),
                                        static_cast<std::int32_t>(first_less), static_cast<std::int32_t>(last_less));
    if (counts) return *counts;
    return members_.refusal(kFirstLess, "leaves too few layers for " + std::to_string(stages) + " stages");
  }

  Status read_batch(Plan& plan) {
    // Its name before 0.1.
    const char* const local_path =
        members_.find("training.batch_size") != nullptr ? "training.batch_size" : "training.local_batch_size";
    constexpr const char* kMicro = "parallelism.pipeline_parallel_microbatch_size";
    TRIMTAB_TRY(const std::int32_t local, degree(local_path, 8));
    TRIMTAB_TRY(const std::optional<std::int32_t> batch, left_over(kGlobalBatch));
    TRIMTAB_TRY(const std::int32_t micro, degrees_.pp > 1 ? degree(kMicro, 1) : Result<std::int32_t>(local));
    const std::int64_t step = std::int64_t{local} * degrees_.dp();
    const std::int64_t all = batch.value_or(static_cast<std::int32_t>(std::min<std::int64_t>(step, 1 << 30)));
    if (all % step != 0 || local % micro != 0) {
      const bool outer = all % step != 0;
      return members_.refusal(
          outer ? kGlobalBatch : kMicro,
          outer
              ? "must be a multiple of training.local_batch_size times replicas, " + std::to_string(local) + " x " +
                    std::to_string(degrees_.dp()) + ", found " + std::to_string(all)
              : "must divide training.local_batch_size, " + std::to_string(local) + ", found " + std::to_string(micro));
    }
    if (degrees_.pp > 1 && all != step) {
      return members_.refusal(kGlobalBatch,
                              "a plan has one run of the pipeline a step, so it must be training.local_batch_size "
                              "times replicas, " +
                                  std::to_string(step) + ", found " + std::to_string(all));
    }
    plan.global_batch = static_cast<std::int32_t>(all);
    plan.microbatch = micro * degrees_.dp();
    return {};
  }

  // torchtitan's default: parameters are gathered once a step where microbatches of a pipeline would gather them anew.
  Result<ShardedLevel> level() {
    constexpr const char* kReshard = "parallelism.fsdp_reshard_after_forward";
    if (degrees_.shard == 1 && degrees_.cp == 1) return ShardedLevel::kNone;
    if (members_.find(kReshard) == nullptr && !complete_) return unknown(kReshard);
    TRIMTAB_TRY(const std::string policy, members_.text(kReshard, "default"));
    if (policy == "always") return ShardedLevel::kParameters;
    if (policy == "never") return ShardedLevel::kGradients;
    if (policy == "default") return degrees_.pp > 1 ? ShardedLevel::kGradients : ShardedLevel::kParameters;
    return members_.refusal(kReshard, "expected default, always or never, found " + quoted_text(policy));
  }

  Result<std::vector<bool>> recomputed_layers() {
    constexpr const char* kSaid = "activation_checkpoint.policy";
    constexpr const char* kMode = "activation_checkpoint.mode";
    constexpr const char* kOption = "activation_checkpoint.selective_ac_option";
    python_ = members_.find(kSaid) != nullptr;
    if (!python_ && !complete_ && members_.find(kMode) == nullptr) return unknown(kMode);
    TRIMTAB_TRY(const std::string policy, python_ ? members_.text(kSaid, "") : members_.text(kMode, "selective"));
    const Json* const option = members_.find(kOption);
    std::optional<std::int32_t> every;
    if (policy == "none") every = 0;
    if (policy == "full") every = 1;
    if (policy == "selective" && !python_) {
      const std::string text = option == nullptr     ? "2"
                               : option->is_string() ? option->get<std::string>()
                                                     : dump(*option);
      every = parse_number<std::int32_t>(text);
      // 0 is torchtitan's for all.
      if (every == 0) every = 1;
      if (!every || *every < 1) {
        return members_.refusal(kOption,
                                "a plan recomputes whole layers, found " + quoted_text(text) +
                                    "; to begin with another, add `-- --activation_checkpoint.mode none`, or a number");
      }
    }
    if (every) return every_nth_layer(counts_, degrees_.pp, *every);
    return members_.refusal(python_ ? "activation_checkpoint" : kMode,
                            "a plan recomputes whole layers, full or none, found " + quoted_text(policy) +
                                (python_ ? "; to begin with another, add `-- activation-checkpoint:none`"
                                         : "; to begin with another, add `-- --activation_checkpoint.mode none`"));
  }

  Status read_sequences(Plan& plan) {
    constexpr const char* kLength = "training.seq_len";
    constexpr const char* kShared = "parallelism.enable_sequence_parallel";
    TRIMTAB_TRY(std::optional<std::int32_t> length, members_.count(kLength));
    if (!length && complete_) length = 2048;
    for (const Operator& op : model_.operators) {
      const auto sequence = op.shape.find("sequence");
      if (!length || sequence == op.shape.end() || sequence->second == *length) continue;
      return members_.refusal(kLength, "is " + std::to_string(*length) + ", but the model's sequences have " +
                                           std::to_string(sequence->second) + " tokens");
    }
    if (python_ && degrees_.tp > 1 && !complete_ && members_.find(kShared) == nullptr) return unknown(kShared);
    TRIMTAB_TRY(const bool shared, members_.flag(kShared, true));
    if (degrees_.tp > 1 && shared) plan.target_knobs[kSequenceKnob] = "true";
    return {};
  }

  bool complete_ = !file_.text.empty();  // there is a file, and what it does not say is torchtitan's own
  bool python_ = false;                  // 0.3
  Degrees degrees_;
  ModelLayers parts_;
  std::vector<std::int32_t> counts_;
};

}  // namespace

Result<Json> torchtitan_tree(const PlanFile& file) {
  const std::size_t begin = file.text.find_first_not_of(" \t\r\n");
  const bool json = begin != std::string::npos && file.text[begin] == '{';
  TRIMTAB_TRY(Json tree, json ? parse_json_text(file.text, file.source) : parse_toml_tree(file.text, file.source));
  name_policy(tree);
  add_overrides(file.options, tree);
  return tree;
}

Result<Plan> read_torchtitan_plan(PlanMembers& members, const PlanFile& file, const Model& model) {
  return Reader(members, file, model).plan();
}

}  // namespace trimtab
