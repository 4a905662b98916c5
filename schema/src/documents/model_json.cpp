#include "schema/model.hpp"

#include <algorithm>

#include "documents/members.hpp"
#include "schema/models/parameters.hpp"

namespace trimtab {

namespace {

constexpr std::string_view kSchema = "trimtab.model/1";
constexpr std::string_view kRecomputeUnits[] = {"layer", "operator"};
constexpr std::string_view kLaunchWays[] = {"kernels", "compiled", "graph"};
constexpr std::string_view kGalvatronFamilies[] = {"bert", "t5", "vit", "swin", "gpt"};
constexpr IntegerLimits kIndex{0, kNonNegative32.high, "the index of an operator"};

void check_count(const JsonReader& list, std::size_t most, const char* what) {
  if (list.size() > most) list.fail("at most " + std::to_string(most) + " " + what);
}

// An index beyond the last operator.
void check_tied(const JsonReader& all, const Model& model) {
  for (std::size_t i = 0; i < model.tied_parameters.size(); ++i) {
    const std::vector<std::int32_t>& operators = model.tied_parameters[i].operators;
    const auto beyond = std::find_if(operators.begin(), operators.end(), [&](std::int32_t index) {
      return std::cmp_greater_equal(index, model.operators.size());
    });
    if (beyond == operators.end()) continue;
    all.element(i).at("operators").element(static_cast<std::size_t>(beyond - operators.begin())).fail(kIndex.name);
  }
}

// The reserved names of a shape (schema/models/parameters.hpp).
void check_experts(const JsonReader& in, const Operator& op) {
  if (!has_experts(op)) return;
  const JsonReader shape = in.at("shape");
  const std::int64_t experts = shape.at(kExperts).integer({1, kMostExperts, "a number of experts, 1 to 65536"});
  (void)shape.at(kActiveExperts).integer({1, experts, "a number of at least 1 and at most experts"});
  (void)shape.at(kExpertParameterBytes)
      .integer({0, op.parameter_bytes / std::max<std::int64_t>(experts, 1),
                "an integer of at least 0, of which as many as experts are at most parameter_bytes"});
}

}  // namespace

template <typename M>
void members(M& m, Of<Operator> auto& op) {
  m.needed("name", op.name);
  m.always("kind", op.kind);
  m.always("layer", op.layer);
  if constexpr (M::kReads) op.cost_key = op.name;
  m.always("cost_key", op.cost_key);
  m.always("cut_before", op.cut_before);
  m.always("shape", op.shape);
  m.always("parameter_bytes", op.parameter_bytes);
  if constexpr (M::kReads) check_experts(m.in, op);
  m.always("activation_bytes", op.activation_bytes);
  m.always("output_bytes", op.output_bytes);
  m.always("forward_flops", op.forward_flops);
  m.always("shardings", op.shardings);
  if constexpr (M::kReads) {
    if (op.shardings.empty()) m.in.at("shardings").fail("an array of at least one");
  }
  m.always("tensor_all_reduces", op.tensor_all_reduces);
  m.always("key_value_bytes", op.key_value_bytes);
  m.always("replicated_activation_bytes", op.replicated_activation_bytes,
           {0, op.activation_bytes, "an integer of at least 0 and at most activation_bytes"});
  m.unless(true, "output_saved", op.output_saved);
}

void members(auto& m, Of<TiedParameters> auto& tied) {
  m.list("operators", tied.operators, kIndex);
  m.always("bytes", tied.bytes);
  m.unless(false, "copied", tied.copied);
}

void members(auto& m, Of<AcesoFacts> auto& facts) {
  m.always("main_parameter_bytes_per_parameter_byte", facts.main_parameter_bytes_per_parameter_byte);
  m.always("recompute_headroom_bytes", facts.recompute_headroom_bytes);
  m.always("resharding", facts.resharding);
  m.always("mixed_splits", facts.mixed_splits);
}

void members(auto& m, Of<GalvatronEnds> auto& ends) {
  m.always("states_mib", ends.states_mib);
  m.always("activation_mib", ends.activation_mib);
}

void members(auto& m, Of<GalvatronFacts> auto& facts) {
  m.word("family", facts.family, kGalvatronFamilies);
  m.always("overhead_ms", facts.overhead_ms);
  m.always("node", facts.node);
  m.always("whole", facts.whole);
  m.always("first", facts.first);
  m.always("last", facts.last);
  m.always("microbatch_relief_mib", facts.microbatch_relief_mib);
}

template <typename M>
void members(M& m, Of<Model> auto& model) {
  m.needed("name", model.name);
  m.needed("global_batch", model.global_batch, kSamples);
  m.always("dtype", model.dtype);
  m.inside("microbatch_values", [&](auto& values) {
    values.unless({}, "total", model.microbatch_total, kPositive32);
    values.unless({}, "per_replica", model.microbatch_per_replica, kPositive32);
    if constexpr (M::kReads) {
      check_count(values.in.at("total"), kMostMicrobatchValues, "values");
      check_count(values.in.at("per_replica"), kMostMicrobatchValues, "values");
    }
  });
  m.always("gradient_bytes_per_parameter_byte", model.gradient_bytes_per_parameter_byte);
  m.always("optimizer_bytes_per_parameter_byte", model.optimizer_bytes_per_parameter_byte);
  if (M::kReads || model.recompute_unit != RecomputeUnit::kLayer) {
    m.word("recompute_unit", model.recompute_unit, kRecomputeUnits);
  }
  m.unless(false, "frees_sent_outputs", model.frees_sent_outputs);
  if (M::kReads || model.launched_as != LaunchedAs::kKernels) m.word("launched_as", model.launched_as, kLaunchWays);
  m.always("aceso", model.aceso);
  m.always("galvatron", model.galvatron);
  if constexpr (M::kReads) check_count(m.in.at("operators"), kMostOperators, "operators");
  m.list("operators", model.operators);
  if (M::kReads || !model.tied_parameters.empty()) m.always("tied_parameters", model.tied_parameters);
  if constexpr (M::kReads) check_tied(m.in.at("tied_parameters"), model);
}

Result<Model> parse_whole_model(std::string_view json, std::string_view source) {
  return parse_document<Model>(json, source, kSchema);
}

Result<Model> parse_model(std::string_view json, std::string_view source) {
  TRIMTAB_TRY(Model model, parse_whole_model(json, source));
  if (const Status priced = check_priced(model); !priced.ok()) return wrap(std::string(source), priced.error());
  return model;
}

std::string to_json(const Model& model) {
  return written_document(model, kSchema);
}

}  // namespace trimtab
