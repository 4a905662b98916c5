#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/simulation.hpp"
#include "schema/nearest.hpp"
#include "schema/toml_nesting.hpp"

namespace trimtab::coordinator {
namespace {

template <typename Section>
struct NumberKey {
  const char* name;
  double Section::*field;
  double low;
  double high;
};

constexpr double kMany = 1e12;
constexpr std::array<NumberKey<TruthSettings>, 10> kTruth{
    {{"computation", &TruthSettings::computation, 0, 100},
     {"communication", &TruthSettings::communication, 0, 100},
     {"overlap", &TruthSettings::overlap, 0, 100},
     {"memory", &TruthSettings::memory, 0, 100},
     {"error", &TruthSettings::error, 0, 2},
     {"operators", &TruthSettings::operators, 0, 2},
     {"spread", &TruthSettings::spread, 0, 2},
     {"way", &TruthSettings::way, 0, 2},
     {"plan", &TruthSettings::plan, 0, 2},
     {"step_overhead_ms", &TruthSettings::step_overhead_ms, 0, kMany}}};
constexpr std::array<NumberKey<NoiseSettings>, 6> kNoise{
    {{"step", &NoiseSettings::step, 0, 2},
     {"drift", &NoiseSettings::drift, 0, 2},
     {"drift_steps", &NoiseSettings::drift_steps, 1e-3, kMany},
     {"straggler", &NoiseSettings::straggler, 0, 1},
     {"straggler_slowdown", &NoiseSettings::straggler_slowdown, 1, 1000},
     {"outlier_slowdown", &NoiseSettings::outlier_slowdown, 1, 1000}}};
constexpr std::array<NumberKey<SwitchSettings>, 6> kSwitch{
    {{"seconds", &SwitchSettings::seconds, 0, kMany},
     {"bytes_per_second", &SwitchSettings::bytes_per_second, 1, 1e15},
     {"warmup_slowdown", &SwitchSettings::warmup_slowdown, 1, 1000},
     {"warmup_decay", &SwitchSettings::warmup_decay, 0, 0.99},
     {"crash", &SwitchSettings::crash, 0, 1},
     {"hang", &SwitchSettings::hang, 0, 1}}};
constexpr std::array<NumberKey<FaultSettings>, 4> kFaults{{{"corrupt", &FaultSettings::corrupt, 0, 1},
                                                           {"unreported", &FaultSettings::unreported, 0, 1},
                                                           {"clock", &FaultSettings::clock, 0, 1},
                                                           {"clock_speed", &FaultSettings::clock_speed, 1e-6, 1e6}}};
constexpr std::array<NumberKey<DriftSettings>, 3> kDrift{{{"share", &DriftSettings::share, 1e-6, 1000},
                                                          {"seconds", &DriftSettings::seconds, 0, kMany},
                                                          {"latency_us", &DriftSettings::latency_us, 0, kMany}}};

std::string number_text(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

// A table of the document, whose every key must be asked for.
class Section {
 public:
  Section(const toml::table& table, std::string name, std::string_view source)
      : table_(table), name_(std::move(name)), source_(source) {}

  template <typename Settings, std::size_t N>
  [[nodiscard]] Status numbers(const std::array<NumberKey<Settings>, N>& keys, Settings& out) {
    for (const auto& key : keys) TRIMTAB_TRY_STATUS(number(key.name, key.low, key.high, out.*key.field));
    return {};
  }

  [[nodiscard]] Status number(const char* key, double low, double high, double& out) {
    const toml::node* node = find(key);
    if (node == nullptr) return {};
    const auto value = node->is_number() ? node->value<double>() : std::nullopt;
    if (!value || !(*value >= low && *value <= high)) {
      return bad(*node, key, "a number from " + number_text(low) + " to " + number_text(high) + " is needed");
    }
    out = *value;
    return {};
  }

  template <typename Integer>
  [[nodiscard]] Status integer(const char* key, Integer& out) {
    const toml::node* node = find(key);
    if (node == nullptr) return {};
    const auto value = node->value_exact<std::int64_t>();
    if (!value || *value < 0 || *value > 2'000'000'000)
      return bad(*node, key, "a whole number from 0 to 2e9 is needed");
    out = static_cast<Integer>(*value);
    return {};
  }

  [[nodiscard]] Status text(const char* key, std::string& out) {
    const toml::node* node = find(key);
    if (node == nullptr) return {};
    const auto value = node->value_exact<std::string>();
    if (!value) return bad(*node, key, "a text in quotes is needed");
    out = *value;
    return {};
  }

  // REQUIRES: every known key has been asked for.
  [[nodiscard]] Status nothing_else() const {
    for (const auto& [key, node] : table_) {
      const std::string word(key.str());
      if (std::find(known_.begin(), known_.end(), word) != known_.end()) continue;
      return bad_input(place(node) + ": unknown key '" + word + "' in [" + name_ + "]; did you mean '" +
                       nearest(word, known_) + "'?");
    }
    return {};
  }

  [[nodiscard]] Error refuse(const std::string& why) const { return bad_input(place(table_) + ": " + why); }

 private:
  const toml::node* find(const char* key) {
    known_.emplace_back(key);
    return table_.get(key);
  }
  [[nodiscard]] std::string place(const toml::node& node) const {
    return source_ + ":" + std::to_string(node.source().begin.line);
  }
  [[nodiscard]] Error bad(const toml::node& node, const char* key, const std::string& needed) const {
    return bad_input(place(node) + ": " + name_ + "." + key + ": " + needed);
  }

  const toml::table& table_;
  std::string name_;
  std::string source_;
  std::vector<std::string> known_;
};

Status read_truth(Section in, TruthSettings& truth) {
  TRIMTAB_TRY_STATUS(in.numbers(kTruth, truth));
  return in.nothing_else();
}

Status read_noise(Section in, NoiseSettings& noise) {
  TRIMTAB_TRY_STATUS(in.numbers(kNoise, noise));
  TRIMTAB_TRY_STATUS(in.integer("outlier_every", noise.outlier_every));
  return in.nothing_else();
}

Status read_switch(Section in, SwitchSettings& change) {
  TRIMTAB_TRY_STATUS(in.numbers(kSwitch, change));
  TRIMTAB_TRY_STATUS(in.integer("preparing_steps", change.preparing_steps));
  if (change.crash + change.hang > 1) return in.refuse("switch.crash and switch.hang are more than 1 together");
  return in.nothing_else();
}

Status read_faults(Section in, FaultSettings& faults) {
  TRIMTAB_TRY_STATUS(in.numbers(kFaults, faults));
  return in.nothing_else();
}

Status read_drift(Section in, DriftSettings& drift) {
  TRIMTAB_TRY_STATUS(in.numbers(kDrift, drift));
  TRIMTAB_TRY_STATUS(in.integer("at_step", drift.at_step));
  TRIMTAB_TRY_STATUS(in.integer("device", drift.device));
  TRIMTAB_TRY_STATUS(in.text("kind", drift.kind));
  TRIMTAB_TRY_STATUS(in.text("level", drift.level));
  TRIMTAB_TRY_STATUS(in.text("node", drift.node));
  TRIMTAB_TRY_STATUS(in.text("peer", drift.peer));
  TRIMTAB_TRY_STATUS(in.nothing_else());
  if (drift.kind == "link" && drift.level.empty()) return in.refuse("a drift of a link needs its level");
  if (drift.kind == "link" && drift.node.empty() != drift.peer.empty()) {
    return in.refuse("a drift of one link needs both its nodes: node = \"n3\", peer = \"n4\"");
  }
  if (drift.kind == "lost" && drift.node.empty()) return in.refuse("a lost node needs its name: node = \"n1\"");
  if (drift.kind == "joined" && drift.node.empty()) return in.refuse("a node that joins needs a name: node = \"n9\"");
  static const std::vector<std::string_view> kKinds = {"link", "device", "lost", "joined", "coordinator"};
  if (std::find(kKinds.begin(), kKinds.end(), drift.kind) != kKinds.end()) return {};
  return in.refuse("drift.kind is '" + drift.kind +
                   "'; \"link\", \"device\", \"lost\", \"joined\" or \"coordinator\" is needed");
}

Status read_drifts(const toml::node& node, std::string_view source, std::vector<DriftSettings>& drifts) {
  const toml::array* list = node.as_array();
  if (list == nullptr || list->empty()) return bad_input(std::string(source) + ": drift events are written [[drift]]");
  for (const toml::node& one : *list) {
    if (!one.is_table()) return bad_input(std::string(source) + ": drift events are written [[drift]]");
    drifts.emplace_back();
    TRIMTAB_TRY_STATUS(read_drift({*one.as_table(), "drift", source}, drifts.back()));
  }
  return {};
}

Status read_section(const std::string& name, const toml::node& node, std::string_view source, Scenario& scenario) {
  static const std::vector<std::string> kSections = {"truth", "noise", "switch", "faults", "drift"};
  if (name == "drift") return read_drifts(node, source, scenario.drift);
  const bool known = std::find(kSections.begin(), kSections.end(), name) != kSections.end();
  if (!known || !node.is_table()) {
    return bad_input(std::string(source) + ":" + std::to_string(node.source().begin.line) + ": '" + name +
                     "' is no section of a scenario; did you mean [" + nearest(name, kSections) + "]?");
  }
  const Section section(*node.as_table(), name, source);
  if (name == "truth") return read_truth(section, scenario.truth);
  if (name == "noise") return read_noise(section, scenario.noise);
  if (name == "faults") return read_faults(section, scenario.faults);
  return read_switch(section, scenario.change);
}

}  // namespace

Result<Scenario> parse_scenario(std::string_view text, std::string_view source) {
  Scenario scenario;
  TRIMTAB_TRY_STATUS(check_toml_keys(text, source));
  try {
    const toml::table document = toml::parse(text, source);
    for (const auto& [key, node] : document) {
      TRIMTAB_TRY_STATUS(read_section(std::string(key.str()), node, source, scenario));
    }
  } catch (const toml::parse_error& cause) {
    return not_toml(source, cause.source().begin.line, cause.description());
  }
  return scenario;
}

}  // namespace trimtab::coordinator
