// GPT-NeoX's configuration, read: DeepSpeed's members for the replicas, and what shares their ranks out
// (megatron/neox_arguments/neox_args.py and arguments.py there, 2.0). It is no target: no plan is written for it.

#include <algorithm>
#include <array>

#include "targets/plan_layers.hpp"
#include "targets/plan_readers.hpp"
#include "targets/plan_stages.hpp"
#include "targets/yaml_flow.hpp"

namespace trimtab {

namespace {

constexpr std::array<UnsayableMember, 3> kUnsayable{
    {{"checkpoint_in_cpu", 0, "a plan has no recomputed layer's input on the host"},
     {"moe_num_experts", 1, "a plan has no experts"},
     {"expert_parallel_size", 1, "a plan has no experts"}}};

class Reader : PlanReader {
 public:
  using PlanReader::PlanReader;

  Result<Plan> plan() {
    TRIMTAB_TRY_STATUS(members_.check_sayable(kUnsayable));
    TRIMTAB_TRY(parts_, layers_of(model_));
    TRIMTAB_TRY_STATUS(check_model());
    TRIMTAB_TRY_STATUS(read_degrees());
    PlanFile replicas = file_;
    replicas.ranks = dp_;
    TRIMTAB_TRY(Plan plan, read_deepspeed_plan(members_, replicas, model_));
    TRIMTAB_TRY_STATUS(check_pipeline());
    TRIMTAB_TRY(const bool recomputed, recomputes());
    TRIMTAB_TRY_STATUS(read_sequences(plan));
    Segment like = plan.stages.front().segments.front();
    like.tp = tp_;
    const std::vector<std::int32_t> layers(static_cast<std::size_t>(pp_), this->layers() / pp_);
    TRIMTAB_TRY(plan.stages, plan_stages(
                                 model_, parts_, {layers, pp_, dp_ * tp_},
                                 [&](std::int32_t op) {
                                   const bool inside = op >= parts_.before.end && op < parts_.layers.back().end;
                                   return OperatorPlan{like, recomputed && inside};
                                 },
                                 "pipe_parallel_size"));
    return plan;
  }

 private:
  [[nodiscard]] std::int32_t layers() const { return static_cast<std::int32_t>(parts_.layers.size()); }

  Status check_model() {
    TRIMTAB_TRY(const std::optional<std::int32_t> said, members_.count("num_layers"));
    TRIMTAB_TRY(const std::optional<std::int32_t> length, members_.count("seq_length"));
    if (said && *said != layers()) {
      return members_.refusal(
          "num_layers", "is " + std::to_string(*said) + ", but the model has " + std::to_string(layers()) + " layers");
    }
    for (const Operator& op : model_.operators) {
      const auto sequence = op.shape.find("sequence");
      if (!length || sequence == op.shape.end() || sequence->second == *length) continue;
      return members_.refusal("seq_length", "is " + std::to_string(*length) + ", but the model's sequences have " +
                                                std::to_string(sequence->second) + " tokens");
    }
    return {};
  }

  // 0 is GPT-NeoX's word for none.
  Result<std::int32_t> degree(const char* path) {
    TRIMTAB_TRY(const std::optional<std::int64_t> said, members_.integer(path));
    if (!said || *said == 0) return 1;
    if (*said > 0 && *said <= 1 << 20) return static_cast<std::int32_t>(*said);
    return members_.refusal(path, "expected 0 to " + std::to_string(1 << 20) + ", found " + std::to_string(*said));
  }

  Status read_degrees() {
    TRIMTAB_TRY(pp_, degree("pipe_parallel_size"));
    TRIMTAB_TRY(tp_, degree("model_parallel_size"));
    if (!file_.ranks) return ranks_needed("the file does not say on how many GPUs it is run");
    const std::int64_t others = std::int64_t{pp_} * tp_;
    dp_ = static_cast<std::int32_t>(*file_.ranks / others);
    if (*file_.ranks % others == 0) return {};
    return members_.refusal("model_parallel_size", "pipe_parallel_size x model_parallel_size, " + std::to_string(pp_) +
                                                       " x " + std::to_string(tp_) + ", must divide the " +
                                                       std::to_string(*file_.ranks) + " ranks");
  }

  Status check_pipeline() {
    constexpr const char* kMethod = "pipe_partition_method";
    TRIMTAB_TRY(const std::string method, members_.text(kMethod, "type:transformer|mlp"));
    if (pp_ == 1) return {};
    TRIMTAB_TRY(const std::optional<std::int64_t> stage, members_.integer("zero_optimization.stage"));
    if (stage.value_or(0) > 1) {
      return members_.refusal("zero_optimization.stage", "DeepSpeed has pipelines with 0 and 1 alone");
    }
    if (!method.starts_with("type:transformer")) {
      return members_.refusal(
          kMethod,
          "a plan is read where stages have as many layers (type:transformer|mlp), found " + quoted_text(method));
    }
    if (layers() % pp_ == 0) return {};
    return members_.refusal("pipe_parallel_size", "must divide the model's " + std::to_string(layers()) +
                                                      " layers, found " + std::to_string(pp_));
  }

  Result<bool> recomputes() {
    constexpr const char* kLayers = "checkpoint_num_layers";
    TRIMTAB_TRY(const bool recomputed, members_.flag("checkpoint_activations", false));
    TRIMTAB_TRY(const std::optional<std::int32_t> together, members_.count(kLayers));
    TRIMTAB_TRY(const bool parted, members_.flag("partition_activations", false));
    if (recomputed && parted && tp_ > 1) {
      return members_.refusal("partition_activations",
                              "a plan has no input of a recomputed layer that tensor-parallel ranks share");
    }
    if (!recomputed || together.value_or(1) == 1) return recomputed;
    return members_.refusal(kLayers, "a plan recomputes one layer at a time, found " + std::to_string(*together));
  }

  Status read_sequences(Plan& plan) {
    TRIMTAB_TRY(const bool shared, members_.flag("sequence_parallel", false));
    if (!shared || tp_ == 1) return {};
    plan.target_knobs[kSequenceKnob] = "true";
    for (const Operator& op : model_.operators) {
      const auto sequence = op.shape.find("sequence");
      if (sequence == op.shape.end() || sequence->second % tp_ == 0) continue;
      return members_.refusal("sequence_parallel", "model_parallel_size, " + std::to_string(tp_) +
                                                       ", must divide the sequence, found " +
                                                       std::to_string(sequence->second));
    }
    return {};
  }

  ModelLayers parts_;
  std::int32_t pp_ = 1;
  std::int32_t tp_ = 1;
  std::int32_t dp_ = 1;
};

}  // namespace

Result<Json> neox_tree(const PlanFile& file) {
  TRIMTAB_TRY(const std::vector<Json> parts, parse_yaml_flows(file.text, file.source));
  Json tree = Json::object();
  for (const Json& part : parts) {
    if (!part.is_object()) return part;
    for (const auto& [name, value] : part.items()) {
      std::string own = name;
      std::ranges::replace(own, '-', '_');
      if (tree.contains(own)) {
        return bad_input(file.source + ": " + own + ": stands twice, in several files or with dashes and without");
      }
      tree[own] = value;
    }
  }
  // It completes batches as DeepSpeed does, but for this default.
  if (!tree.contains("gradient_accumulation_steps")) tree["gradient_accumulation_steps"] = 1;
  return tree;
}

Result<Plan> read_neox_plan(PlanMembers& members, const PlanFile& file, const Model& model) {
  return Reader(members, file, model).plan();
}

}  // namespace trimtab
