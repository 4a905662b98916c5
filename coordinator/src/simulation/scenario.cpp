#include "coordinator/simulation.hpp"

namespace trimtab::coordinator {
namespace {

constexpr double kMany = 1e12;
constexpr std::string_view kDriftKinds[] = {"link", "device", "lost", "joined", "coordinator"};

using Row = Setting<Scenario>;

SettingKind<std::int64_t> count() {
  return integer_setting(0, 2'000'000'000);
}

SettingKind<double> share() {
  return number_setting(0, 1);
}

SettingKind<double> deviation() {
  return number_setting(0, 2);
}

SettingKind<double> slowdown() {
  return number_setting(1, 1000);
}

std::vector<Row> truth_settings() {
  const auto of = [](double TruthSettings::*field) { return within(&Scenario::truth, field); };
  const auto factor = number_setting(0, 100);
  return {{"truth.computation", factor, of(&TruthSettings::computation),
           "true times of operators are so many times as long as measured", "drawn"},
          {"truth.communication", factor, of(&TruthSettings::communication), "those of messages", "drawn"},
          {"truth.overlap", factor, of(&TruthSettings::overlap), "on the part of a slowdown beyond 1", "drawn"},
          {"truth.memory", factor, of(&TruthSettings::memory), "the memory that is truly needed", "drawn"},
          {"truth.error", deviation(), of(&TruthSettings::error),
           "of the factors that are drawn: e^(error * normal), a quarter of it for memory"},
          {"truth.operators", deviation(), of(&TruthSettings::operators),
           "each operator's (and each collective's) times differ together by this, in logarithms"},
          {"truth.spread", deviation(), of(&TruthSettings::spread),
           "and each single measured time by this: what no factor explains"},
          {"truth.way", deviation(), of(&TruthSettings::way),
           "and what no cost explains: of all operators that are run in one way"},
          {"truth.plan", deviation(), of(&TruthSettings::plan), "and of each plan alone"},
          {"truth.step_overhead_ms", number_setting(0, kMany), of(&TruthSettings::step_overhead_ms),
           "of each step, owned by nothing"}};
}

std::vector<Row> noise_settings() {
  const auto of = [](auto field) { return within(&Scenario::noise, field); };
  return {{"noise.step", deviation(), of(&NoiseSettings::step), "of a step's time, in logarithms: each step's own"},
          {"noise.drift", deviation(), of(&NoiseSettings::drift),
           "of the machine, a first-order autoregression: its standard deviation"},
          {"noise.drift_steps", number_setting(1e-3, kMany), of(&NoiseSettings::drift_steps),
           "after how many steps it has forgotten 63 %"},
          {"noise.straggler", share(), of(&NoiseSettings::straggler), "share of steps with a slow rank"},
          {"noise.straggler_slowdown", slowdown(), of(&NoiseSettings::straggler_slowdown), "how slow it is"},
          {"noise.outlier_every", count(), of(&NoiseSettings::outlier_every),
           "steps from one checkpoint that is written to the next. 0 = never"},
          {"noise.outlier_slowdown", slowdown(), of(&NoiseSettings::outlier_slowdown), "how slow such a step is"},
          {"noise.tail", share(), of(&NoiseSettings::tail),
           "share of steps that something hits, each Pareto-many times as long (shape 2, at most 10 times)"},
          {"noise.busy_every_s", number_setting(0, kMany), of(&NoiseSettings::busy_every_s),
           "in the mean, until other work makes all slow for a while. 0 = never"},
          {"noise.busy_s", number_setting(1e-3, kMany), of(&NoiseSettings::busy_s),
           "in the mean, until that other work is over"},
          {"noise.busy_slowdown", slowdown(), of(&NoiseSettings::busy_slowdown),
           "how slow steps and probes are meanwhile"}};
}

std::vector<Row> switch_settings() {
  const auto of = [](auto field) { return within(&Scenario::change, field); };
  return {{"switch.seconds", number_setting(0, kMany), of(&SwitchSettings::seconds), "what a change of plan takes"},
          {"switch.bytes_per_second", number_setting(1, 1e15), of(&SwitchSettings::bytes_per_second),
           "of a device's parameters, gradients and optimizer state"},
          {"switch.warmup_slowdown", slowdown(), of(&SwitchSettings::warmup_slowdown), "of the first step afterwards"},
          {"switch.warmup_decay", number_setting(0, 0.99), of(&SwitchSettings::warmup_decay),
           "what is left of that with each step"},
          {"switch.preparing_steps", count(), of(&SwitchSettings::preparing_steps),
           "so many are as slow as the first: a rank tells that it prepares"},
          {"switch.crash", share(), of(&SwitchSettings::crash), "share of first runs of a plan in which a rank dies"},
          {"switch.hang", share(), of(&SwitchSettings::hang), "and in which all fall silent"}};
}

std::vector<Row> fault_settings() {
  const auto of = [](double FaultSettings::*field) { return within(&Scenario::faults, field); };
  return {{"faults.corrupt", share(), of(&FaultSettings::corrupt),
           "share of steps whose time is told as 0, or as a billion times itself"},
          {"faults.unreported", share(), of(&FaultSettings::unreported),
           "share of first runs of a plan in which a rank tells of no step"},
          {"faults.clock", share(), of(&FaultSettings::clock), "and in which the ranks' clocks run at clock_speed"},
          {"faults.clock_speed", number_setting(1e-6, 1e6), of(&FaultSettings::clock_speed), "how fast they run"},
          {{"drift", {GivenSetting::Type::kTables}, "", "[[drift]] tables", "none", "something changes at a step"},
           [](Scenario& scenario, const GivenSetting&) {
             scenario.drift.emplace_back();
             return Status();
           }}};
}

// What is wrong with it as a whole, or "".
std::string objection(const DriftSettings& drift) {
  if (drift.kind.empty()) return "drift.kind is needed";
  if (drift.kind == "link" && drift.level.empty()) return "a drift of a link needs its level";
  if (drift.kind == "link" && drift.node.empty() != drift.peer.empty()) {
    return "a drift of one link needs both its nodes: node = \"n3\", peer = \"n4\"";
  }
  if (drift.kind == "lost" && drift.node.empty()) return "a lost node needs its name: node = \"n1\"";
  if (drift.kind == "joined" && drift.node.empty()) return "a node that joins needs a name: node = \"n9\"";
  return "";
}

// What no setting can see by itself.
Status check(const Scenario& scenario, const std::vector<GivenSetting>& all) {
  auto drift = scenario.drift.begin();
  for (const GivenSetting& given : all) {
    std::string why;
    if (given.name == "drift") why = objection(*drift++);
    if (given.name == "switch" && scenario.change.crash + scenario.change.hang > 1) {
      why = "switch.crash and switch.hang are more than 1 together";
    }
    if (!why.empty()) return bad_input(given.place + ": " + why);
  }
  return {};
}

}  // namespace

const SettingTable<Scenario>& scenario_settings() {
  static const SettingTable<Scenario> kTable(SettingSources::kFile,
                                             {truth_settings(), noise_settings(), switch_settings(), fault_settings()});
  return kTable;
}

const SettingTable<DriftSettings>& drift_settings() {
  using D = DriftSettings;
  static const SettingTable<D> kTable(
      SettingSources::kFile,
      {{{"drift.at_step", count(), &D::at_step, "when"},
        {"drift.kind", word_setting(kDriftKinds), &D::kind,
         "link: links of `level` have `share` of their bandwidth. device: it has `share` of its speed. "
         "lost: `node` is away for `seconds`. joined: an unknown or a lost `node` comes. coordinator: another takes "
         "over",
         "none: needed"},
        {"drift.level", text_setting("NAME"), &D::level, "of a link: intra_node, inter_node"},
        {"drift.node", text_setting("NAME"), &D::node, "of a link: that one alone, to `peer`. Else the node"},
        {"drift.peer", text_setting("NAME"), &D::peer, "the link's other node"},
        {"drift.device", count(), &D::device, "its number in the cluster document's order"},
        {"drift.share", number_setting(1e-6, 1000), &D::share,
         "what is left. Of a node that comes back or joins: other than 1, it is other hardware that computes at it"},
        {"drift.seconds", number_setting(0, kMany), &D::seconds,
         "how long a lost node is away. Its ranks are dead when it is back"},
        {"drift.latency_us", number_setting(0, kMany), &D::latency_us,
         "of a link: what each message over it takes longer"}}});
  return kTable;
}

Result<Scenario> parse_scenario(std::string_view text, std::string_view source) {
  TRIMTAB_TRY(const std::vector<GivenSetting> all, read_toml(text, source));
  Scenario scenario;
  for (const GivenSetting& given : all) {
    const bool of_drift = given.name.starts_with("drift.");
    TRIMTAB_TRY_STATUS(of_drift ? drift_settings().set(scenario.drift.back(), given)
                                : scenario_settings().set(scenario, given));
  }
  TRIMTAB_TRY_STATUS(check(scenario, all));
  return scenario;
}

}  // namespace trimtab::coordinator
