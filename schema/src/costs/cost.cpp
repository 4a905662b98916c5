#include "schema/cost.hpp"

#include <array>

#include "documents/members.hpp"

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

CostKey CostKey::launch() const {
  CostKey key = *this;
  key.algorithm = kLaunch;
  return key;
}

CostKey CostKey::launched() const {
  CostKey key = *this;
  key.algorithm.clear();
  key.protocol.clear();
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

static void read_json(const JsonReader& in, CostKind& kind) {
  const std::string text = in.text();
  const Result<CostKind> parsed = parse_cost_kind(text);
  if (!in.failed() && !parsed.ok()) in.refuse(parsed.error().message);
  if (parsed.ok()) kind = *parsed;
}

static OrderedJson write_json(CostKind kind) {
  return to_string(kind);
}

void members(auto& m, Of<CostKey> auto& key) {
  m.needed("kind", key.kind);
  m.needed("subject", key.subject);
  m.unless("", "dtype", key.dtype);
  m.unless(0, "samples", key.samples);
  if (key.samples != 0) {
    m.always("tp", key.tp, kPositive32);
    m.always("sharding", key.sharding);
  } else {
    m.unless(1, "tp", key.tp, kPositive32);
    m.unless("default", "sharding", key.sharding);
  }
  m.unless(0, "bytes", key.bytes);
  m.unless(0, "group_size", key.group_size);
  m.unless("", "placement", key.placement);
  m.unless("", "algorithm", key.algorithm);
  m.unless("", "protocol", key.protocol);
  m.unless(0, "channels", key.channels);
  m.unless("", "kernel_class", key.kernel_class);
}

Result<CostKey> parse_cost_key(std::string_view json) {
  TRIMTAB_TRY(CostKey key, parse_document<CostKey>(json, "cost key", ""));
  return canonical(std::move(key));
}

std::string to_json(const CostKey& key) {
  return written_document(key, "");
}

}  // namespace trimtab
