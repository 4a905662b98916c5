#include "doctor_daemons.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "base/numbers.hpp"

namespace trimtab::cli {

namespace {

using Samples = std::vector<MetricSample>;

double sum_of(const Samples& page, std::string_view name) {
  double sum = 0;
  for (const MetricSample& sample : page) sum += sample.name == name ? sample.value : 0;
  return sum;
}

// What a label says; empty where it is not there.
std::string label_of(const MetricSample& sample, const std::string& label) {
  const std::string begin = label + "=\"";
  const std::size_t found = sample.labels.find(begin);
  if (found == std::string::npos) return "";
  const std::size_t from = found + begin.size();
  return sample.labels.substr(from, sample.labels.find('"', from) - from);
}

// Values of `label` where the metric says more than `most`: "n0, n1".
std::string where(const Samples& page, std::string_view name, const std::string& label, double most = 0) {
  std::string text;
  for (const MetricSample& sample : page) {
    if (sample.name != name || std::abs(sample.value) <= most) continue;
    text += (text.empty() ? "" : ", ") + label_of(sample, label);
  }
  return text;
}

std::string counted(double value) {
  return format_number(value, 0);
}

class Findings {
 public:
  explicit Findings(std::string daemon) : daemon_(std::move(daemon)) {}
  void add(bool wrong, const char* what, Health health, const std::string& found, const std::string& remedy) {
    if (wrong) checks_.push_back({daemon_ + ": " + what, health, found, remedy});
  }
  [[nodiscard]] std::vector<Check> checks(const std::string& well) && {
    if (checks_.empty()) checks_.push_back({daemon_, Health::kOk, well, ""});
    return std::move(checks_);
  }

 private:
  std::string daemon_;
  std::vector<Check> checks_;
};

constexpr double kLateLoop = 1.0;
constexpr double kFullSpool = 128 * 1048576.0;
constexpr double kWrongClock = 1.0;
constexpr double kManyRefusals = 100;
constexpr Nanoseconds kSoon = std::chrono::hours(24 * 30);

std::string seconds(double value) {
  return format_number(value, 1) + " s";
}

}  // namespace

std::vector<MetricSample> parse_metric_page(std::string_view text) {
  Samples page;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.rfind(' ');
    if (line.empty() || line[0] == '#' || space == std::string::npos) continue;
    MetricSample sample;
    std::string head = line.substr(0, space);
    if (const std::size_t brace = head.find('{'); brace != std::string::npos && head.back() == '}') {
      sample.labels = head.substr(brace + 1, head.size() - brace - 2);
      head.resize(brace);
    }
    sample.name = head;
    char* end = nullptr;
    sample.value = std::strtod(line.c_str() + space + 1, &end);
    if (end != nullptr && *end == '\0' && end != line.c_str() + space + 1) page.push_back(std::move(sample));
  }
  return page;
}

std::vector<Check> agent_checks(const Samples& page) {
  const auto value = [&](const char* name) { return sum_of(page, std::string("trimtab_agent_") + name); };
  Findings findings("agent");
  findings.add(value("coordinator_connected") == 0, "link", Health::kWarn, "the coordinator does not know this agent",
               "its log says why: a wrong address, a certificate, a coordinator that is not there; costs are spooled "
               "until then");
  findings.add(value("batches_failed_total") > 0, "storage", Health::kFail,
               counted(value("batches_failed_total")) + " attempts to store costs failed",
               "its state directory is full or cannot be written: free some space; nothing is lost while it runs");
  findings.add(value("costs_dropped_total") > 0, "spool", Health::kWarn,
               counted(value("costs_dropped_total")) + " passive values were dropped, spool and memory were full",
               "bring the coordinator back, or raise spool_limit");
  findings.add(value("spool_bytes") > kFullSpool, "spool", Health::kWarn,
               format_bytes(static_cast<Bytes>(value("spool_bytes"))) + " wait for the coordinator",
               "bring the coordinator back; beyond spool_limit costs wait in memory");
  const double records = value("records_total") + value("records_dropped_total");
  findings.add(
      value("records_dropped_total") > 0, "rings", Health::kWarn,
      format_percent(value("records_dropped_total") / std::max(records, 1.0)) + " of the records found their ring full",
      "the agent had no CPU, or was away: look at its loop; costs come from the others");
  findings.add(value("rings_broken_total") + value("records_malformed_total") > 0, "rings", Health::kWarn,
               counted(value("rings_broken_total")) + " rings given up, " + counted(value("records_malformed_total")) +
                   " records made no sense",
               "use the libtrimtab-inject.so of the agent's release in the jobs");
  findings.add(value("frames_refused_total") > 0, "protocol", Health::kWarn,
               counted(value("frames_refused_total")) + " frames of training processes broke the protocol",
               "use the Python client of the agent's release in the jobs; the log names the frames");
  findings.add(value("processes_refused_total") > 0, "users", Health::kWarn,
               counted(value("processes_refused_total")) + " connections of other users' processes were refused",
               "run an agent as the user whose jobs are to be measured: trimtab-agent@USER");
  findings.add(value("kill_switch") > 0, "kill switch", Health::kWarn,
               "thrown: ranks here take no plan but their incumbents", "trimtab kill-switch release");
  findings.add(value("loop_lag_seconds") > kLateLoop, "loop", Health::kWarn,
               seconds(value("loop_lag_seconds")) + " late",
               "its disk or its CPU is too slow: see its state directory's device and who shares its cores");
  findings.add(value("ranks_running") == 0 && value("resident_bytes") > value("idle_memory_budget_bytes"), "memory",
               Health::kWarn,
               format_bytes(static_cast<Bytes>(value("resident_bytes"))) + " without a rank, more than the budget of " +
                   format_bytes(static_cast<Bytes>(value("idle_memory_budget_bytes"))),
               "see docs/operating.md, 'An idle agent takes too much'");
  const std::string stalled = where(page, "trimtab_host_source_stalled", "source");
  findings.add(!stalled.empty(), "sources", Health::kWarn, "reading hangs: " + stalled,
               "a driver or a device does not answer (nvidia-smi, dmesg); everything else goes on");
  const std::string broken = where(page, "trimtab_host_source_failures_total", "source");
  findings.add(!broken.empty(), "sources", Health::kWarn, "reads failed: " + broken, "the agent's log says why");
  return std::move(findings).checks(counted(value("ranks_running")) + " ranks, connected to the coordinator");
}

std::vector<Check> coordinator_checks(const Samples& page) {
  const auto value = [&](const char* name) { return sum_of(page, std::string("trimtab_") + name); };
  const auto nodes = [&](const std::string& state) {
    double count = 0;
    for (const MetricSample& one : page) {
      count += one.name == "trimtab_nodes" && label_of(one, "state") == state ? one.value : 0;
    }
    return count;
  };
  Findings findings("coordinator");
  findings.add(nodes("lost") > 0, "nodes", Health::kWarn, counted(nodes("lost")) + " are lost",
               "'trimtab status' names them: look at their agents and the network between");
  findings.add(value("state_failures_total") > 0, "storage", Health::kFail,
               counted(value("state_failures_total")) + " transitions could not be stored at once",
               "its state directory is full or cannot be written: jobs wait until it can");
  const std::string halted = where(page, "trimtab_job_halted", "job");
  findings.add(!halted.empty(), "jobs", Health::kWarn, "halted: " + halted,
               "its ranks crashed too often: mend what 'trimtab trials' says and hand it in again");
  const std::string held = where(page, "trimtab_node_kill_switch", "node");
  findings.add(!held.empty(), "kill switch", Health::kWarn, "thrown on " + held, "there: trimtab kill-switch release");
  const std::string wrong = where(page, "trimtab_node_clock_ahead_seconds", "node", kWrongClock);
  findings.add(!wrong.empty(), "clocks", Health::kWarn, "more than 1 s off: " + wrong,
               "let NTP or PTP set them; late ranks cannot be told there");
  const std::string refused = where(page, "trimtab_refused_total", "reason", kManyRefusals);
  findings.add(!refused.empty(), "access", Health::kWarn, "many were turned away: " + refused,
               "the log names their addresses and why");
  findings.add(value("frames_malformed_total") > 0, "protocol", Health::kWarn,
               counted(value("frames_malformed_total")) + " frames of agents could not be read",
               "bring agents and coordinator to one release");
  findings.add(value("loop_lag_seconds") > kLateLoop, "loop", Health::kWarn,
               seconds(value("loop_lag_seconds")) + " late",
               "its disk or its CPU is too slow: see its state directory's device and who shares its cores");
  return std::move(findings).checks(counted(nodes("connected")) + " nodes connected");
}

Check check_configuration_file(const std::string& path, const std::string& problem) {
  if (problem.empty()) return {"configuration", Health::kOk, path, ""};
  return {"configuration", Health::kFail, problem, "mend it; the daemon does not start with it"};
}

Check check_certificate(const std::string& path, const std::string& owner, Nanoseconds expires, Nanoseconds now) {
  const auto days = std::chrono::duration_cast<std::chrono::hours>(expires - now).count() / 24;
  const std::string whose = path + " of " + owner;
  if (expires - now > kSoon) {
    return {"certificate", Health::kOk, whose + ", " + std::to_string(days) + " days left", ""};
  }
  const std::string remedy = "'trimtab cert issue' makes a new one, which is read without a restart";
  if (expires > now)
    return {"certificate", Health::kWarn, whose + " ends in " + std::to_string(days) + " days", remedy};
  return {"certificate", Health::kFail, whose + " has expired", remedy};
}

}  // namespace trimtab::cli
