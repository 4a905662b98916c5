#include "schema/model.hpp"

#include "documents/json_reader.hpp"

namespace trimtab {

namespace {

constexpr std::string_view kSchema = "trimtab.model/1";
constexpr std::string_view kRecomputeUnits[] = {"layer", "operator"};
constexpr std::string_view kGalvatronFamilies[] = {"bert", "t5", "vit", "swin", "gpt"};

std::vector<std::int32_t> read_sizes(const JsonReader& array) {
  std::vector<std::int32_t> sizes;
  array.each([&](const JsonReader& item) { sizes.push_back(item.integer32(kPositive32)); });
  return sizes;
}

Operator read_operator(const JsonReader& in) {
  Operator op;
  op.name = in.at("name").text();
  op.kind = in.at("kind").text_or("");
  op.layer = in.at("layer").integer32_or(0, kNonNegative32);
  op.cost_key = in.at("cost_key").text_or(op.name);
  op.cut_before = in.at("cut_before").flag_or(true);
  in.at("shape").each_member(
      [&](const std::string& dimension, const JsonReader& size) { op.shape[dimension] = size.integer(kNonNegative); });
  op.parameter_bytes = in.at("parameter_bytes").integer_or(0, kNonNegative);
  op.activation_bytes = in.at("activation_bytes").integer_or(0, kNonNegative);
  if (const JsonReader bytes = in.at("replicated_activation_bytes"); bytes.present()) {
    op.replicated_activation_bytes =
        bytes.integer({0, op.activation_bytes, "an integer of at least 0 and at most activation_bytes"});
  }
  op.output_bytes = in.at("output_bytes").integer_or(0, kNonNegative);
  op.output_saved = in.at("output_saved").flag_or(true);
  op.forward_flops = in.at("forward_flops").integer_or(0, kNonNegative);
  if (const JsonReader shardings = in.at("shardings"); shardings.present()) {
    op.shardings = shardings.texts();
    if (op.shardings.empty()) shardings.fail("an array of at least one");
  }
  if (const JsonReader reduces = in.at("tensor_all_reduces"); reduces.present()) {
    op.tensor_all_reduces = reduces.integer32(kNonNegative32);
  }
  if (const JsonReader bytes = in.at("key_value_bytes"); bytes.present()) {
    op.key_value_bytes = bytes.integer(kNonNegative);
  }
  return op;
}

TiedParameters read_tied(const JsonReader& in, std::size_t operators) {
  TiedParameters tied;
  const IntegerLimits index{0, static_cast<std::int64_t>(operators) - 1, "the index of an operator"};
  in.at("operators").each_required([&](const JsonReader& item) { tied.operators.push_back(item.integer32(index)); });
  tied.bytes = in.at("bytes").integer_or(0, kNonNegative);
  tied.copied = in.at("copied").flag_or(false);
  return tied;
}

AcesoFacts read_aceso(const JsonReader& in) {
  AcesoFacts facts;
  facts.main_parameter_bytes_per_parameter_byte = in.at("main_parameter_bytes_per_parameter_byte").number_or(0);
  facts.recompute_headroom_bytes = in.at("recompute_headroom_bytes").integer_or(0, kNonNegative);
  facts.resharding = in.at("resharding").flag_or(true);
  facts.mixed_splits = in.at("mixed_splits").flag_or(false);
  return facts;
}

GalvatronEnds read_ends(const JsonReader& in) {
  return {in.at("states_mib").number_or(0), in.at("activation_mib").number_or(0)};
}

GalvatronFacts read_galvatron(const JsonReader& in) {
  GalvatronFacts facts;
  constexpr auto kOther = static_cast<std::size_t>(GalvatronFamily::kGpt);
  facts.family = static_cast<GalvatronFamily>(in.at("family").choice_or(kOther, kGalvatronFamilies));
  facts.overhead_ms = in.at("overhead_ms").number_or(0);
  facts.node = read_ends(in.at("node"));
  facts.whole = read_ends(in.at("whole"));
  facts.first = read_ends(in.at("first"));
  facts.last = read_ends(in.at("last"));
  facts.microbatch_relief_mib = in.at("microbatch_relief_mib").number_or(0);
  return facts;
}

OrderedJson write_ends(const GalvatronEnds& ends) {
  return {{"states_mib", ends.states_mib}, {"activation_mib", ends.activation_mib}};
}

OrderedJson write_galvatron(const GalvatronFacts& facts) {
  return {{"family", kGalvatronFamilies[static_cast<std::size_t>(facts.family)]},
          {"overhead_ms", facts.overhead_ms},
          {"node", write_ends(facts.node)},
          {"whole", write_ends(facts.whole)},
          {"first", write_ends(facts.first)},
          {"last", write_ends(facts.last)},
          {"microbatch_relief_mib", facts.microbatch_relief_mib}};
}

OrderedJson write_operator(const Operator& op) {
  OrderedJson json{{"name", op.name},
                   {"kind", op.kind},
                   {"layer", op.layer},
                   {"cost_key", op.cost_key},
                   {"cut_before", op.cut_before},
                   {"shape", op.shape},
                   {"parameter_bytes", op.parameter_bytes},
                   {"activation_bytes", op.activation_bytes},
                   {"output_bytes", op.output_bytes},
                   {"forward_flops", op.forward_flops},
                   {"shardings", op.shardings}};
  if (op.tensor_all_reduces) json["tensor_all_reduces"] = *op.tensor_all_reduces;
  if (op.key_value_bytes) json["key_value_bytes"] = *op.key_value_bytes;
  if (op.replicated_activation_bytes) json["replicated_activation_bytes"] = *op.replicated_activation_bytes;
  if (!op.output_saved) json["output_saved"] = false;
  return json;
}

}  // namespace

Result<Model> parse_model(std::string_view json, std::string_view source) {
  TRIMTAB_TRY(JsonDocument document, JsonDocument::parse(json, source, kSchema));
  const JsonReader root = document.root();
  Model model;
  model.name = root.at("name").text();
  model.global_batch = root.at("global_batch").integer32(kPositive32);
  model.dtype = root.at("dtype").text_or("float32");
  model.microbatch_total = read_sizes(root.at("microbatch_values").at("total"));
  model.microbatch_per_replica = read_sizes(root.at("microbatch_values").at("per_replica"));
  root.at("operators").each_required([&](const JsonReader& in) { model.operators.push_back(read_operator(in)); });
  root.at("tied_parameters").each([&](const JsonReader& in) {
    model.tied_parameters.push_back(read_tied(in, model.operators.size()));
  });
  model.gradient_bytes_per_parameter_byte = root.at("gradient_bytes_per_parameter_byte").number_or(1.0);
  model.optimizer_bytes_per_parameter_byte = root.at("optimizer_bytes_per_parameter_byte").number_or(2.0);
  constexpr auto kLayer = static_cast<std::size_t>(RecomputeUnit::kLayer);
  model.recompute_unit = static_cast<RecomputeUnit>(root.at("recompute_unit").choice_or(kLayer, kRecomputeUnits));
  model.frees_sent_outputs = root.at("frees_sent_outputs").flag_or(false);
  if (const JsonReader aceso = root.at("aceso"); aceso.present()) model.aceso = read_aceso(aceso);
  if (const JsonReader in = root.at("galvatron"); in.present()) model.galvatron = read_galvatron(in);
  TRIMTAB_TRY_STATUS(document.status());
  return model;
}

std::string to_json(const Model& model) {
  OrderedJson json{
      {"schema", kSchema}, {"name", model.name}, {"global_batch", model.global_batch}, {"dtype", model.dtype}};
  if (!model.microbatch_total.empty()) json["microbatch_values"]["total"] = model.microbatch_total;
  if (!model.microbatch_per_replica.empty()) json["microbatch_values"]["per_replica"] = model.microbatch_per_replica;
  json["gradient_bytes_per_parameter_byte"] = model.gradient_bytes_per_parameter_byte;
  json["optimizer_bytes_per_parameter_byte"] = model.optimizer_bytes_per_parameter_byte;
  if (model.recompute_unit != RecomputeUnit::kLayer) {
    json["recompute_unit"] = kRecomputeUnits[static_cast<std::size_t>(model.recompute_unit)];
  }
  if (model.frees_sent_outputs) json["frees_sent_outputs"] = true;
  if (model.aceso) {
    json["aceso"] = {{"main_parameter_bytes_per_parameter_byte", model.aceso->main_parameter_bytes_per_parameter_byte},
                     {"recompute_headroom_bytes", model.aceso->recompute_headroom_bytes},
                     {"resharding", model.aceso->resharding},
                     {"mixed_splits", model.aceso->mixed_splits}};
  }
  if (model.galvatron) json["galvatron"] = write_galvatron(*model.galvatron);
  json["operators"] = OrderedJson::array();
  for (const Operator& op : model.operators) json["operators"].push_back(write_operator(op));
  for (const TiedParameters& tied : model.tied_parameters) {
    OrderedJson of{{"operators", tied.operators}, {"bytes", tied.bytes}};
    if (tied.copied) of["copied"] = true;
    json["tied_parameters"].push_back(std::move(of));
  }
  return dump(json);
}

}  // namespace trimtab
