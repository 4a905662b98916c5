#include "schema/cost.hpp"

#include <array>

#include "documents/json_reader.hpp"

namespace trimtab {

namespace {

struct KindNames {
  std::string_view name;
  std::string_view unit;
};

// In the order of CostKind.
constexpr std::array<KindNames, 19> kKinds{{{"operator_forward", "ns"},
                                            {"operator_backward", "ns"},
                                            {"operator_stored_bytes", "bytes"},
                                            {"operator_working_bytes", "bytes"},
                                            {"operator_input_bytes", "bytes"},
                                            {"operator_output_bytes", "bytes"},
                                            {"operator_parameter_bytes", "bytes"},
                                            {"operator_forward_reserve_bytes", "bytes"},
                                            {"operator_backward_reserve_bytes", "bytes"},
                                            {"optimizer_step", "ns"},
                                            {"collective", "ns"},
                                            {"point_to_point", "ns"},
                                            {"overlap_computation", "ppm"},
                                            {"overlap_communication", "ppm"},
                                            {"process_bytes", "bytes"},
                                            {"step_overhead", "ns"},
                                            {"step_time", "ns"},
                                            {"range", "ns"},
                                            {"kernel", "ns"}}};
static_assert(kKinds.size() == static_cast<std::size_t>(CostKind::kKernel) + 1);

bool crosses_links(CostKind kind) {
  return kind == CostKind::kCollective || kind == CostKind::kPointToPoint || kind == CostKind::kOverlapComputation ||
         kind == CostKind::kOverlapCommunication;
}

CostKind read_kind(const JsonReader& field) {
  const std::string text = field.text();
  if (field.failed()) return CostKind::kRange;
  const Result<CostKind> kind = parse_cost_kind(text);
  if (kind) return *kind;
  field.refuse(kind.error().message);
  return CostKind::kRange;
}

}  // namespace

std::string_view to_string(CostKind kind) {
  return kKinds[static_cast<std::size_t>(kind)].name;
}

std::string_view unit_of(CostKind kind) {
  return kKinds[static_cast<std::size_t>(kind)].unit;
}

Result<CostKind> parse_cost_kind(std::string_view text) {
  std::string known;
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    if (kKinds[i].name == text) return static_cast<CostKind>(i);
    known += (i == 0 ? "" : ", ") + std::string(kKinds[i].name);
  }
  return bad_input("expected a cost kind (" + known + "), found " + quoted_text(text));
}

CostKey canonical(CostKey key) {
  if (key.tp == 0) key.tp = 1;
  if (key.sharding.empty()) key.sharding = "default";
  if (key.placement.empty() && crosses_links(key.kind)) key.placement = "intra_node";
  return key;
}

std::string describe(const CostKey& key) {
  std::string text = std::string(to_string(key.kind)) + " " + key.subject;
  if (!key.dtype.empty()) text += " " + key.dtype;
  if (key.samples != 0)
    text += " samples=" + std::to_string(key.samples) + " tp=" + std::to_string(key.tp) + " " + key.sharding;
  if (key.bytes != 0) text += " bytes=" + std::to_string(key.bytes);
  if (key.group_size != 0) text += " group_size=" + std::to_string(key.group_size);
  if (!key.placement.empty()) text += " " + key.placement;
  if (!key.algorithm.empty()) text += " " + key.algorithm;
  if (!key.protocol.empty()) text += " " + key.protocol;
  if (key.channels != 0) text += " channels=" + std::to_string(key.channels);
  if (!key.kernel_class.empty()) text += " beside " + key.kernel_class;
  return text;
}

Result<CostKey> parse_cost_key(std::string_view json) {
  TRIMTAB_TRY(JsonDocument document, JsonDocument::parse(json, "cost key", ""));
  const JsonReader root = document.root();
  CostKey key;
  key.kind = read_kind(root.at("kind"));
  key.subject = root.at("subject").text();
  key.dtype = root.at("dtype").text_or("");
  key.samples = root.at("samples").integer32_or(0, kNonNegative32);
  key.tp = root.at("tp").integer32_or(1, kPositive32);
  key.sharding = root.at("sharding").text_or("default");
  key.bytes = root.at("bytes").integer_or(0, kNonNegative);
  key.group_size = root.at("group_size").integer32_or(0, kNonNegative32);
  key.placement = root.at("placement").text_or("");
  key.algorithm = root.at("algorithm").text_or("");
  key.protocol = root.at("protocol").text_or("");
  key.channels = root.at("channels").integer32_or(0, kNonNegative32);
  key.kernel_class = root.at("kernel_class").text_or("");
  TRIMTAB_TRY_STATUS(document.status());
  return canonical(std::move(key));
}

std::string to_json(const CostKey& key) {
  OrderedJson json{{"kind", to_string(key.kind)}, {"subject", key.subject}};
  if (!key.dtype.empty()) json["dtype"] = key.dtype;
  if (key.samples != 0) json["samples"] = key.samples;
  if (key.samples != 0 || key.tp != 1) json["tp"] = key.tp;
  if (key.samples != 0 || key.sharding != "default") json["sharding"] = key.sharding;
  if (key.bytes != 0) json["bytes"] = key.bytes;
  if (key.group_size != 0) json["group_size"] = key.group_size;
  if (!key.placement.empty()) json["placement"] = key.placement;
  if (!key.algorithm.empty()) json["algorithm"] = key.algorithm;
  if (!key.protocol.empty()) json["protocol"] = key.protocol;
  if (key.channels != 0) json["channels"] = key.channels;
  if (!key.kernel_class.empty()) json["kernel_class"] = key.kernel_class;
  return dump(json);
}

}  // namespace trimtab
