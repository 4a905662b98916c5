#include "estimates/request.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "estimates/constants.hpp"

namespace trimtab::estimates {

namespace {

using nlohmann::json;

constexpr std::array kSharded = {Word{"nothing", Sharded::kNothing}, Word{"optimizer", Sharded::kOptimizer},
                                 Word{"gradients", Sharded::kGradients}, Word{"parameters", Sharded::kParameters}};
constexpr std::array kPrecisions = {Word{"float16", Precision::kFloat16}, Word{"bfloat16", Precision::kBfloat16},
                                    Word{"float8", Precision::kFloat8}};
constexpr std::array kFrameworks = {Word{"megatron", Framework::kMegatron},
                                    Word{"megatron-2022", Framework::kMegatron2022},
                                    Word{"megatron-2021", Framework::kMegatron2021},
                                    Word{"nanotron", Framework::kNanotron},
                                    Word{"fsdp", Framework::kFsdp},
                                    Word{"compiled-fsdp", Framework::kCompiledFsdp},
                                    Word{"deepspeed", Framework::kDeepSpeed},
                                    Word{"maxtext", Framework::kMaxText}};

// The members of one object. Every member is asked for once; `finish` refuses those that nobody asked for.
class Members {
 public:
  Members(const json& object, std::string source) : object_(object), source_(std::move(source)) {}

  [[nodiscard]] Status number(const char* name, std::int32_t& value, bool needed = false) {
    const json* found = find(name);
    if (found == nullptr) return needed ? wanted(name, "a positive integer", nullptr) : Status{};
    const bool fits = found->is_number_integer() && *found >= 0 && *found <= std::numeric_limits<std::int32_t>::max();
    if (!fits || (needed && *found == 0)) return wanted(name, "a positive integer", found);
    value = found->get<std::int32_t>();
    return {};
  }

  [[nodiscard]] Status share(const char* name, double& value) {
    const json* found = find(name);
    if (found == nullptr) return {};
    if (!found->is_number() || *found < 0 || *found > 1) return wanted(name, "a number from 0 to 1", found);
    value = found->get<double>();
    return {};
  }

  [[nodiscard]] Status flag(const char* name, bool& value) {
    const json* found = find(name);
    if (found == nullptr) return {};
    if (!found->is_boolean()) return wanted(name, "true or false", found);
    value = found->get<bool>();
    return {};
  }

  [[nodiscard]] Status text(const char* name, std::string& value, bool needed = false) {
    const json* found = find(name);
    if (found == nullptr) return needed ? wanted(name, "a text", nullptr) : Status{};
    if (!found->is_string()) return wanted(name, "a text", found);
    value = found->get<std::string>();
    return {};
  }

  template <typename Words, typename Value>
  [[nodiscard]] Status word(const char* name, const Words& words, Value& value) {
    const json* found = find(name);
    if (found == nullptr) return {};
    std::string known;
    for (const auto& one : words) {
      if (found->is_string() && found->get_ref<const std::string&>() == one.word) {
        value = one.value;
        return {};
      }
      known += (known.empty() ? "" : ", ") + std::string(one.word);
    }
    return wanted(name, "one of " + known, found);
  }

  [[nodiscard]] const json* find(const char* name) {
    asked_.insert(name);
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  [[nodiscard]] Status wanted(const char* name, const std::string& expected, const json* found) const {
    return bad_input(source_ + ": " + name + ": expected " + expected + ", found " +
                     (found == nullptr ? "nothing" : found->dump(-1, ' ', false, json::error_handler_t::replace)));
  }

  [[nodiscard]] Status finish() const {
    for (const auto& [name, value] : object_.items()) {
      if (!asked_.contains(name)) return bad_input(source_ + ": " + name + ": no such member is known");
    }
    return {};
  }

 private:
  const json& object_;
  std::string source_;
  std::set<std::string, std::less<>> asked_;
};

Result<const json*> object_of(Members& members, const char* name) {
  const json* found = members.find(name);
  if (found == nullptr || !found->is_object()) return members.wanted(name, "an object", found).error();
  return found;
}

Result<Machine> read_machine(Members& members) {
  std::string gpu, network;
  Machine machine;
  TRIMTAB_TRY_STATUS(members.text("gpu", gpu, true));
  TRIMTAB_TRY(machine.gpu, gpu_by_name(gpu));
  TRIMTAB_TRY_STATUS(members.number("gpus", machine.devices, true));
  machine.devices_per_node = std::max(machine.gpu.linked, 8);
  TRIMTAB_TRY_STATUS(members.number("gpus_per_node", machine.devices_per_node));
  if (machine.devices_per_node < 1) return members.wanted("gpus_per_node", "a positive integer", nullptr).error();
  TRIMTAB_TRY_STATUS(members.text("network", network));
  machine.network.bandwidth = usual_network(machine.gpu);
  if (!network.empty()) {
    TRIMTAB_TRY(machine.network, network_by_name(network, machine.devices_per_node));
  }
  return machine;
}

Result<ModelShape> read_shape(const json& object, const std::string& source) {
  ModelShape shape;
  Members members(object, source);
  TRIMTAB_TRY_STATUS(members.text("name", shape.name));
  TRIMTAB_TRY_STATUS(members.number("layers", shape.layers, true));
  TRIMTAB_TRY_STATUS(members.number("hidden", shape.hidden, true));
  TRIMTAB_TRY_STATUS(members.number("ffn", shape.ffn, true));
  TRIMTAB_TRY_STATUS(members.number("heads", shape.heads, true));
  shape.kv_heads = shape.heads;
  TRIMTAB_TRY_STATUS(members.number("kv_heads", shape.kv_heads));
  shape.head_dim = shape.hidden / shape.heads;
  TRIMTAB_TRY_STATUS(members.number("head_dim", shape.head_dim));
  TRIMTAB_TRY_STATUS(members.number("vocabulary", shape.vocabulary, true));
  TRIMTAB_TRY_STATUS(members.number("sequence", shape.sequence, true));
  TRIMTAB_TRY_STATUS(members.number("positions", shape.positions));
  TRIMTAB_TRY_STATUS(members.flag("gated", shape.gated));
  TRIMTAB_TRY_STATUS(members.flag("tied", shape.tied));
  TRIMTAB_TRY_STATUS(members.flag("rms", shape.rms));
  TRIMTAB_TRY_STATUS(members.flag("bias", shape.bias));
  TRIMTAB_TRY_STATUS(members.finish());
  TRIMTAB_TRY_STATUS(check(shape));
  return shape;
}

Status read_overlaps(Members& members, UniformPlan& plan) {
  const json* found = members.find("overlap");
  if (found == nullptr) return {};
  if (!found->is_array()) return members.wanted("overlap", "a list", found);
  plan.overlaps_tensor = plan.overlaps_transfers = plan.overlaps_gradients = plan.overlaps_parameters = false;
  for (const json& one : *found) {
    if (one == "tensor") {
      plan.overlaps_tensor = true;
    } else if (one == "transfers") {
      plan.overlaps_transfers = true;
    } else if (one == "gradients") {
      plan.overlaps_gradients = true;
    } else if (one == "parameters") {
      plan.overlaps_parameters = true;
    } else {
      return members.wanted("overlap", "tensor, transfers, gradients or parameters", &one);
    }
  }
  return {};
}

Result<UniformPlan> read_uniform_plan(const json& object, const std::string& source) {
  UniformPlan plan;
  Members members(object, source);
  TRIMTAB_TRY_STATUS(members.number("dp", plan.replicas));
  TRIMTAB_TRY_STATUS(members.number("tp", plan.tensor));
  TRIMTAB_TRY_STATUS(members.number("pp", plan.stages));
  TRIMTAB_TRY_STATUS(members.number("vpp", plan.chunks));
  TRIMTAB_TRY_STATUS(members.number("cp", plan.context));
  TRIMTAB_TRY_STATUS(members.number("microbatch", plan.microbatch));
  TRIMTAB_TRY_STATUS(members.number("global_batch", plan.global_batch, true));
  TRIMTAB_TRY_STATUS(members.word("sharded", kSharded, plan.sharded));
  TRIMTAB_TRY_STATUS(members.number("sharded_over", plan.sharded_over));
  TRIMTAB_TRY_STATUS(members.flag("reshard", plan.reshard));
  TRIMTAB_TRY_STATUS(members.flag("sequence_parallel", plan.sequence_parallel));
  TRIMTAB_TRY_STATUS(members.word("recompute", kRecomputedWords, plan.recomputed));
  TRIMTAB_TRY_STATUS(members.share("recomputed_share", plan.recomputed_share));
  TRIMTAB_TRY_STATUS(members.word("precision", kPrecisions, plan.precision));
  TRIMTAB_TRY_STATUS(members.number("gradient_bytes", plan.gradient_bytes));
  TRIMTAB_TRY_STATUS(members.number("optimizer_bytes", plan.optimizer_bytes));
  TRIMTAB_TRY_STATUS(members.flag("fused_attention", plan.fused_attention));
  TRIMTAB_TRY_STATUS(members.flag("flash2", plan.flash2));
  TRIMTAB_TRY_STATUS(members.flag("fused_activation", plan.fused_activation));
  TRIMTAB_TRY_STATUS(members.flag("fused_accumulation", plan.fused_accumulation));
  TRIMTAB_TRY_STATUS(members.flag("switch_sums", plan.switch_sums));
  TRIMTAB_TRY_STATUS(members.flag("compiled_loss", plan.compiled_loss));
  TRIMTAB_TRY_STATUS(members.flag("rowwise_scales", plan.rowwise_scales));
  TRIMTAB_TRY_STATUS(read_overlaps(members, plan));
  TRIMTAB_TRY_STATUS(members.share("offloaded_activations", plan.offloaded_activations));
  TRIMTAB_TRY_STATUS(members.flag("offloaded_optimizer", plan.offloaded_optimizer));
  TRIMTAB_TRY_STATUS(members.word("framework", kFrameworks, plan.framework));
  TRIMTAB_TRY_STATUS(members.finish());
  return plan;
}

Status check_plan(const UniformPlan& plan, const Request& request, const std::string& source) {
  if (const Status status = check(plan, request.shape); !status.ok()) return wrap(source, status.error());
  const std::int64_t devices = std::int64_t{plan.replicas} * plan.tensor * plan.stages * plan.context;
  if (devices == request.machine.devices) return {};
  return bad_input(source + ": dp x tp x pp x cp is " + std::to_string(devices) + ", and gpus is " +
                   std::to_string(request.machine.devices));
}

Result<std::vector<MeasuredStep>> read_measured(Members& members, const Request& request, const std::string& source) {
  std::vector<MeasuredStep> measured;
  const json* found = members.find("measured");
  if (found == nullptr) return measured;
  if (!found->is_array()) return members.wanted("measured", "a list", found).error();
  for (const json& one : *found) {
    const std::string where = source + ": measured " + std::to_string(measured.size());
    if (!one.is_object()) return bad_input(where + ": expected an object");
    Members step(one, where);
    const json* seconds = step.find("step_s");
    if (seconds == nullptr || !seconds->is_number() || !(*seconds > 0.0) || !(*seconds < 1e6)) {
      return step.wanted("step_s", "seconds above 0", seconds).error();
    }
    TRIMTAB_TRY(const json* plan, object_of(step, "plan"));
    TRIMTAB_TRY(const UniformPlan of, read_uniform_plan(*plan, where + ": plan"));
    TRIMTAB_TRY_STATUS(step.finish());
    TRIMTAB_TRY_STATUS(check_plan(of, request, where + ": plan"));
    measured.push_back({of, seconds->get<double>()});
  }
  return measured;
}

template <typename Words, typename Value>
std::string_view word_of(const Words& words, Value value) {
  const auto found = std::ranges::find_if(words, [&](const auto& one) { return one.value == value; });
  TRIMTAB_ASSERT(found != words.end(), "every value has a word");
  return found->word;
}

// Of one device, so that it says the same with any number of them in a node.
std::string network_words(const Network& network) {
  constexpr std::array kKinds = {Word{"InfiniBand", NetworkKind::kInfiniBand}, Word{"RoCE", NetworkKind::kRoce},
                                 Word{"EFA", NetworkKind::kEfa}, Word{"Omni-Path", NetworkKind::kOmniPath}};
  const json gigabits = network.bandwidth * 8 / 1e9;
  return gigabits.dump() + "G " + std::string(word_of(kKinds, network.kind));
}

nlohmann::ordered_json shape_json(const ModelShape& shape) {
  return {{"name", shape.name},         {"layers", shape.layers},
          {"hidden", shape.hidden},     {"ffn", shape.ffn},
          {"heads", shape.heads},       {"kv_heads", shape.kv_heads},
          {"head_dim", shape.head_dim}, {"vocabulary", shape.vocabulary},
          {"sequence", shape.sequence}, {"positions", shape.positions},
          {"gated", shape.gated},       {"tied", shape.tied},
          {"rms", shape.rms},           {"bias", shape.bias}};
}

nlohmann::ordered_json plan_json(const UniformPlan& plan) {
  nlohmann::ordered_json overlap = nlohmann::ordered_json::array();
  if (plan.overlaps_tensor) overlap.push_back("tensor");
  if (plan.overlaps_transfers) overlap.push_back("transfers");
  if (plan.overlaps_gradients) overlap.push_back("gradients");
  if (plan.overlaps_parameters) overlap.push_back("parameters");
  return {{"dp", plan.replicas},
          {"tp", plan.tensor},
          {"pp", plan.stages},
          {"vpp", plan.chunks},
          {"cp", plan.context},
          {"microbatch", plan.microbatch},
          {"global_batch", plan.global_batch},
          {"sharded", word_of(kSharded, plan.sharded)},
          {"sharded_over", plan.sharded_over},
          {"reshard", plan.reshard},
          {"sequence_parallel", plan.sequence_parallel},
          {"recompute", word_of(kRecomputedWords, plan.recomputed)},
          {"recomputed_share", plan.recomputed_share},
          {"precision", word_of(kPrecisions, plan.precision)},
          {"gradient_bytes", plan.gradient_bytes},
          {"optimizer_bytes", plan.optimizer_bytes},
          {"flash2", plan.flash2},
          {"fused_attention", plan.fused_attention},
          {"fused_activation", plan.fused_activation},
          {"fused_accumulation", plan.fused_accumulation},
          {"switch_sums", plan.switch_sums},
          {"compiled_loss", plan.compiled_loss},
          {"rowwise_scales", plan.rowwise_scales},
          {"overlap", overlap},
          {"offloaded_activations", plan.offloaded_activations},
          {"offloaded_optimizer", plan.offloaded_optimizer},
          {"framework", word_of(kFrameworks, plan.framework)}};
}

json memory_json(const MemoryEstimate& memory) {
  const auto whole = [](double bytes) { return static_cast<std::int64_t>(std::llround(bytes)); };
  json stages = json::array();
  for (const StageMemory& stage : memory.stages) {
    stages.push_back({{"parameters", whole(stage.parameters)},
                      {"gradients", whole(stage.gradients)},
                      {"optimizer", whole(stage.optimizer)},
                      {"activations", whole(stage.activations)},
                      {"peak", whole(stage.peak)}});
  }
  return {{"allocated", whole(memory.allocated)},
          {"reserved", whole(memory.reserved)},
          {"process", whole(memory.process)},
          {"first_allocated", whole(memory.first_allocated)},
          {"first_reserved", whole(memory.first_reserved)},
          {"fits", memory.fits},
          {"fullest", memory.fullest},
          {"stages", stages}};
}

}  // namespace

Result<Request> parse_request(std::string_view text, std::string_view source) {
  const json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object()) return bad_input(std::string(source) + ": expected a JSON object");
  Members members(parsed, std::string(source));
  Request request;
  TRIMTAB_TRY(request.machine, read_machine(members));
  TRIMTAB_TRY(const json* model, object_of(members, "model"));
  TRIMTAB_TRY(request.shape, read_shape(*model, std::string(source) + ": model"));
  TRIMTAB_TRY(const json* plan, object_of(members, "plan"));
  TRIMTAB_TRY(request.plan, read_uniform_plan(*plan, std::string(source) + ": plan"));
  TRIMTAB_TRY(request.measured, read_measured(members, request, std::string(source)));
  TRIMTAB_TRY_STATUS(members.finish());
  TRIMTAB_TRY_STATUS(check_plan(request.plan, request, std::string(source) + ": plan"));
  return request;
}

Estimate answer(const Request& request) {
  const Constants constants;
  const Estimate plain = estimate(request.machine, request.shape, request.plan, constants);
  return corrected(plain, correction_of(request.machine, request.shape, request.measured, constants));
}

std::string to_json(const Request& request) {
  nlohmann::ordered_json question = {{"gpu", request.machine.gpu.name},
                                     {"gpus", request.machine.devices},
                                     {"gpus_per_node", request.machine.devices_per_node}};
  if (request.machine.network.stated) question["network"] = network_words(request.machine.network);
  question["model"] = shape_json(request.shape);
  question["plan"] = plan_json(request.plan);
  return question.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string to_json(const Estimate& estimate) {
  json parts;
  for (const NamedPart& part : kStepParts) parts[std::string(part.name)] = estimate.parts.*part.seconds;
  const json answer = {{"step_s", estimate.step_s},
                       {"least_s", estimate.least_s},
                       {"most_s", estimate.most_s},
                       {"parts", parts},
                       {"memory", memory_json(estimate.memory)},
                       {"tokens_per_s_per_gpu", estimate.tokens_per_s_per_device},
                       {"mfu", estimate.utilization}};
  return answer.dump();
}

}  // namespace trimtab::estimates
