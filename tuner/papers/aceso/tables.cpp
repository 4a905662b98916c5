#include "papers/aceso/tables.hpp"

#include <map>
#include <set>

namespace trimtab::tuner::aceso {

Result<Tables> Tables::build(const Model& model, const Cluster& cluster, const Profile& profile) {
  Tables tables;
  tables.profile_ = profile;
  Bytes memory = 0;
  std::vector<bool>& begins = tables.node_begin_;
  for (const Node& node : cluster.nodes) {
    begins.push_back(true);
    begins.resize(begins.size() + static_cast<std::size_t>(node.devices) - 1, false);
    if (memory == 0 || node.memory_bytes < memory) memory = node.memory_bytes;
  }
  begins.push_back(true);
  if (memory <= 0) {
    return bad_input("the aceso cost model needs nodes[].memory_bytes; the cluster gives none: add it to cluster.json");
  }
  tables.memory_limit_ = static_cast<double>(memory) / kMiB;
  const AcesoFacts facts = model.aceso.value_or(AcesoFacts{});
  tables.headroom_ = static_cast<double>(facts.recompute_headroom_bytes) / kMiB;
  tables.resharding_ = facts.resharding;
  tables.state_multiple_ = 1 + model.gradient_bytes_per_parameter_byte + model.optimizer_bytes_per_parameter_byte;
  tables.add_operators(model);
  tables.add_settings(model);
  if (tables.settings_.empty()) {
    return bad_input(
        "the aceso cost model needs measured operators (operator_forward by samples and tp); there are none for " +
        model.name + ": import or profile them");
  }
  return tables;
}

void Tables::add_operators(const Model& model) {
  std::map<std::string, std::int32_t> kinds;
  std::map<std::string, std::int32_t> names;
  for (std::size_t i = 0; i < model.operators.size(); ++i) {
    const Operator& op = model.operators[i];
    OperatorFacts facts;
    const auto [kind, new_kind] = kinds.emplace(op.cost_key, static_cast<std::int32_t>(kinds.size()));
    const auto [name, new_name] = names.emplace(op.name, static_cast<std::int32_t>(names.size()));
    facts.kind = kind->second;
    facts.group = name->second;
    facts.name = name_facts(op.name);
    facts.layouts = layouts_of(op.name);
    if (new_kind) first_of_kind_.push_back(static_cast<std::int32_t>(i));
    if (new_name) groups_.emplace_back();
    NameGroup& group = groups_[facts.group];
    group.never_recomputed = facts.name.never_recomputed;
    group.one_kind = group.one_kind && (group.members.empty() || facts_[group.members[0]].kind == facts.kind);
    group.members.push_back(static_cast<std::int32_t>(i));
    facts_.push_back(facts);
  }
  for (NameGroup& group : groups_) {
    group.before.assign(facts_.size() + 1, 0);
    for (const std::int32_t member : group.members) group.before[member + 1] = 1;
    for (std::size_t i = 1; i < group.before.size(); ++i) group.before[i] += group.before[i - 1];
  }
}

void Tables::add_settings(const Model& model) {
  std::set<Profile::Key> keys;
  for (const std::int32_t op : first_of_kind_) {
    const auto rows = profile_.rows.find(model.operators[op].cost_key);
    if (rows == profile_.rows.end()) continue;
    for (const auto& [key, row] : rows->second) keys.insert(key);
  }
  keys_.assign(keys.begin(), keys.end());
  for (const Profile::Key& key : keys_) add_table(model, key);
  add_blends();
}

void Tables::add_blends() {
  for (std::size_t i = 0; i < keys_.size(); ++i) blends_.push_back(static_cast<std::int32_t>(i));
  const bool indifferent = std::all_of(facts_.begin(), facts_.end(), [](const OperatorFacts& facts) {
    return facts.layouts.input[0] == facts.layouts.input[1] && facts.layouts.output[0] == facts.layouts.output[1];
  });
  if (resharding_ && !indifferent) return;
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    const std::int32_t other = keys_[i].alternate ? -1 : setting(keys_[i].samples, keys_[i].tp, true);
    if (other < 0) continue;
    SettingTable table;
    for (std::size_t kind = 0; kind < first_of_kind_.size(); ++kind) {
      const Row& one = settings_[i].rows[kind];
      const Row& two = settings_[other].rows[kind];
      const bool second = two.measured && (!one.measured || two.forward + two.backward < one.forward + one.backward);
      table.rows.push_back(second ? two : one);
      table.behind.push_back(second ? other : static_cast<std::int32_t>(i));
    }
    blends_[i] = settings();
    add_sums(std::move(table));
  }
}

void Tables::add_table(const Model& model, const Profile::Key& key) {
  SettingTable table;
  for (const std::int32_t op : first_of_kind_) {
    Row row = unmeasured_;
    if (const auto rows = profile_.rows.find(model.operators[op].cost_key); rows != profile_.rows.end()) {
      if (const auto found = rows->second.find(key); found != rows->second.end() && found->second.measured) {
        row = found->second;
      }
    }
    table.rows.push_back(row);
  }
  add_sums(std::move(table));
}

void Tables::add_sums(SettingTable table) {
  std::vector<double> forward_reserve;
  std::vector<double> backward_reserve;
  Sums sums;
  table.sums.push_back(sums);
  for (const OperatorFacts& facts : facts_) {
    const Row& row = table.rows[facts.kind];
    sums.forward += row.forward;
    sums.backward += row.backward;
    sums.weight += row.weight;
    sums.activation += row.activation * facts.name.activation_factor;
    sums.unmeasured += row.measured ? 0 : 1;
    table.sums.push_back(sums);
    forward_reserve.push_back(row.forward_reserve);
    backward_reserve.push_back(row.backward_reserve);
  }
  table.forward_reserve = RangeMax(forward_reserve);
  table.backward_reserve = RangeMax(backward_reserve);
  settings_.push_back(std::move(table));
}

std::int32_t Tables::setting(std::int32_t samples, std::int32_t tp, bool alternate) const {
  const Profile::Key key{samples, tp, alternate};
  const auto found = std::lower_bound(keys_.begin(), keys_.end(), key);
  return found != keys_.end() && *found == key ? static_cast<std::int32_t>(found - keys_.begin()) : -1;
}

}  // namespace trimtab::tuner::aceso
