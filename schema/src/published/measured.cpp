#include "published/measured.hpp"

#include "schema/hash64.hpp"

namespace trimtab::published {

Cost measured(CostKey key, std::int64_t value, CostSource source) {
  Cost cost{std::move(key), {}, std::move(source)};
  cost.statistics.add(value);
  return cost;
}

CostKey operator_key(CostKind kind, std::string subject, std::string dtype, std::int32_t samples, std::int32_t tp) {
  return {kind, std::move(subject), std::move(dtype), samples, tp, "default", 0, 0, ""};
}

CostKey link_key(CostKind kind, std::string subject, std::string dtype, std::int64_t bytes, std::int32_t group,
                 bool inter_node) {
  const char* const placement = inter_node ? "inter_node" : "intra_node";
  return {kind, std::move(subject), std::move(dtype), 0, 1, "default", bytes, group, placement};
}

std::string digest(const std::vector<Cost>& costs) {
  std::string text;
  for (const Cost& cost : costs) text += describe(cost.key) + "=" + cost.statistics.encode() + "\n";
  return hash64_hex(text);
}

std::vector<Node> equal_nodes(std::int32_t count, const Node& model) {
  std::vector<Node> nodes(static_cast<std::size_t>(count), model);
  for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i].name = "n" + std::to_string(i);
  return nodes;
}

}  // namespace trimtab::published
