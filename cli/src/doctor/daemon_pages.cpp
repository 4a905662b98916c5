// What is wrong by the page of an agent, and by that of a coordinator.

#include <algorithm>

#include "base/numbers.hpp"
#include "doctor/daemons.hpp"

namespace trimtab::cli {

namespace {

using Samples = std::vector<MetricSample>;

constexpr double kUsualSpool = 256 * 1048576.0;  // of an agent that does not say its limit
constexpr double kFilling = 0.5;
constexpr double kClearlyOver = 2;

bool is_root_for_all(const Samples& page) {
  return std::ranges::any_of(page, [](const MetricSample& one) {
    return one.name == "trimtab_agent_root" && one.value > 0 && label_of(one, "tenant").empty();
  });
}

// Ranks whose collectors take clearly more of their time than they may: "gpt/0 (4.1 %), gpt/1 (3.9 %)".
std::string over_budget(const Samples& page, const EarlierPage& earlier) {
  constexpr const char* kCost = "trimtab_rank_collector_cost_seconds_total";
  std::string text;
  for (const MetricSample& sample : page) {
    const auto budget = value_of(page, "trimtab_rank_collector_budget_ratio", sample.labels);
    const auto before = value_of(earlier.page, kCost, sample.labels);
    if (sample.name != kCost || !budget || !before) continue;
    const double share = (sample.value - *before) / std::chrono::duration<double>(earlier.ago).count();
    if (share <= kClearlyOver * *budget) continue;
    text += (text.empty() ? "" : ", ") + label_of(sample, "job") + "/" + label_of(sample, "rank") + " (" +
            format_percent(share) + ")";
  }
  return text;
}

bool is_over(const Samples& page, const std::string& what) {
  return value_of(page, "trimtab_agent_over_budget", "what=\"" + what + "\"").value_or(0) > 0;
}

std::string bytes(double value) {
  return format_bytes(static_cast<Bytes>(value));
}

// `prefix`: of the daemon's metrics.
void add_databases(const Pages& pages, const std::string& prefix, Findings& findings) {
  constexpr const char* kRead = "docs/operating.md, 'A database was removed or is damaged'";
  const std::string gone = pages.where(prefix + "database_out_of_place", "database");
  findings.add(!gone.empty(), "storage", Health::kFail,
               "nothing is stored any more, its file was removed or replaced: " + gone,
               std::string("the log and 'trimtab status' say what to do; ") + kRead);
  const std::string unwatched = pages.where(prefix + "database_log_unwatched", "database");
  findings.add(!unwatched.empty(), "storage", Health::kWarn,
               "a log that is cut would not be noticed, its -confirmed cannot be written: " + unwatched,
               std::string("see what stands there, and remove it; ") + kRead);
  const std::string apart = pages.where(prefix + "database_set_apart", "database");
  findings.add(!apart.empty(), "storage", Health::kWarn, "rows could not be read and are set apart: " + apart,
               std::string("look for the disk's errors in the kernel's log; ") + kRead);
  const std::string unreadable = pages.where(prefix + "database_unreadable_rows_total", "database");
  findings.add(!unreadable.empty(), "storage", Health::kWarn,
               "rows are without their checksum and left out: " + unreadable,
               std::string("start the daemon again, which sets them apart; ") + kRead);
}

// What the largest part of it goes down with.
void add_disk(const Samples& page, Findings& findings) {
  const auto part = [&](const char* what) {
    return value_of(page, "trimtab_agent_disk_bytes", std::string("what=\"") + what + "\"").value_or(0);
  };
  const double databases = part("databases");
  const double logs = part("logs");
  const double scratch = part("scratch");
  const char* remedy = databases >= std::max(logs, scratch)
                           ? "bring the coordinator back where costs wait for it; databases do not shrink while the "
                             "agent runs: stop it and VACUUM them, or raise disk_budget"
                       : logs >= scratch ? "lower rank_log_limit, shorten job_retention, or raise disk_budget"
                                         : "shorten job_retention, or raise disk_budget";
  findings.add(is_over(page, "disk"), "disk", Health::kWarn,
               bytes(databases + logs + scratch) + " (databases " + bytes(databases) + ", logs " + bytes(logs) +
                   ", scratch of jobs " + bytes(scratch) + "), more than the budget of " +
                   bytes(sum_of(page, "trimtab_agent_disk_budget_bytes")),
               remedy);
}

// Without a rank what it takes is seen at once, by add_rates() too; the agent's own word is of a whole minute.
void add_own_use(const Samples& page, Findings& findings) {
  const bool busy = sum_of(page, "trimtab_agent_ranks_running") > 0;
  constexpr const char* kRemedy = "see docs/operating.md, 'An agent takes too much beside ranks'";
  findings.add(busy && is_over(page, "memory"), "memory", Health::kWarn,
               bytes(sum_of(page, "trimtab_agent_resident_bytes")) + ", more than the budget of " +
                   bytes(sum_of(page, "trimtab_agent_memory_budget_bytes")),
               kRemedy);
  findings.add(busy && is_over(page, "cpu"), "CPU", Health::kWarn,
               "more than the budget of " + format_percent(sum_of(page, "trimtab_agent_cpu_budget_cores")) +
                   " of a core, over a minute",
               kRemedy);
}

void add_rates(const Samples& page, const EarlierPage& earlier, Findings& findings) {
  const auto both = [&](const char* name) { return std::pair(sum_of(earlier.page, name), sum_of(page, name)); };
  const auto [used_before, used] = both("trimtab_agent_cpu_seconds_total");
  const double cores = (used - used_before) / std::chrono::duration<double>(earlier.ago).count();
  const double budget = sum_of(page, "trimtab_agent_idle_cpu_budget_cores");
  const bool idle = both("trimtab_agent_ranks_running") == std::pair(0.0, 0.0);
  findings.add(idle && budget > 0 && cores > budget, "CPU", Health::kWarn,
               format_percent(cores) + " of a core without a rank, more than the budget of " + format_percent(budget),
               "see docs/operating.md, 'An idle agent takes too much'");
  const std::string over = over_budget(page, earlier);
  findings.add(!over.empty(), "collectors", Health::kWarn, "more than twice their budget: " + over,
               "see docs/operating.md, 'Measuring costs too much'");
}

// A counter of the agent's.
Counter count(const Pages& pages, const std::string& name) {
  return pages.counter("trimtab_agent_" + name + "_total");
}

void add_costs(const Pages& pages, Findings& findings) {
  add_databases(pages, "trimtab_agent_", findings);
  findings.add_growing_or_past(
      count(pages, "batches_failed"), "storage", Health::kFail, " attempts to store costs failed",
      "its state directory is full or cannot be written: free some space; nothing is lost while it runs");
  findings.add_ever(count(pages, "costs_dropped"), "spool", " values were dropped, spool and memory were full",
                    "bring the coordinator back, or raise spool_limit");
  const double waiting = sum_of(pages.now, "trimtab_agent_spool_bytes");
  const double limit = value_of(pages.now, "trimtab_agent_spool_limit_bytes", "").value_or(kUsualSpool);
  findings.add(waiting > kFilling * limit, "spool", Health::kWarn,
               bytes(waiting) + " wait for the coordinator, and spool_limit is " + bytes(limit),
               "bring the coordinator back; beyond spool_limit costs wait in memory");
  findings.add_ever(count(pages, "batches_refused"), "costs", " batches are refused by the coordinator for good",
                    "the log says why; they stay in costs.db: bring both to one release, then 'trimtab db merge'");
  const double aside = sum_of(pages.now, "trimtab_agent_batches_aside");
  findings.add(aside > 0, "costs", Health::kWarn,
               counted(aside) + " batches cannot be read by this release and are kept aside",
               "go back to the release that wrote them: it enters them when it starts");
}

void add_rings(const Pages& pages, Findings& findings) {
  const double lost = count(pages, "records_dropped").grown;
  const double records = count(pages, "records").grown + lost;
  findings.add(lost > 0, "rings", Health::kWarn,
               format_percent(lost / std::max(records, 1.0)) + " of the records found their ring full",
               "the agent had no CPU, or was away: look at its loop; costs come from the others");
  const Counter broken = count(pages, "rings_broken");
  const Counter malformed = count(pages, "records_malformed");
  const Counter both{broken.total + malformed.total, broken.grown + malformed.grown};
  findings.add(broken.total > 0 || malformed.grown > 0, "rings", Health::kWarn,
               counted(broken.total) + " rings given up, " + counted(malformed.total) + " records made no sense" +
                   since_start(both),
               "use the libtrimtab-inject.so of the agent's release in the jobs");
  findings.add_growing_or_past(count(pages, "rings_refused"), "rings", Health::kWarn,
                               " rings were not taken: their processes are not measured",
                               "the log says which; raise ring_memory or ring_memory_of_process, or bring the job to "
                               "the agent's release");
}

void add_messages(const Pages& pages, Findings& findings) {
  findings.add_growing(count(pages, "frames_refused"), "protocol", Health::kWarn,
                       " frames of training processes broke the protocol",
                       "use the Python client of the agent's release in the jobs; the log names the frames");
  findings.add_growing(count(pages, "link_frames_refused"), "protocol", Health::kWarn,
                       " frames of the coordinator were refused: too large, too many entries, or no messages",
                       "the log says which: give the agent the coordinator's max_frame, and both one release");
  findings.add_growing(count(pages, "link_frames_unsent"), "link", Health::kWarn, " messages found link_queue full",
                       "the coordinator or the way there is too slow: see its loop and the network; costs wait in "
                       "the spool");
  findings.add_growing(count(pages, "steps_dropped"), "steps", Health::kWarn,
                       " steps were not told, the coordinator was away",
                       "see why it was: tuning lacks these steps, and costs are there all the same");
  findings.add_growing_or_past(count(pages, "processes_refused"), "users", Health::kWarn,
                               " connections of other users' processes were refused",
                               "run an agent as the user whose jobs are to be measured: trimtab-agent@USER");
}

void add_sources(const Pages& pages, Findings& findings) {
  const std::string stalled = pages.where("trimtab_host_source_stalled", "source");
  findings.add(!stalled.empty(), "sources", Health::kWarn, "reading hangs: " + stalled,
               "a driver or a device does not answer (nvidia-smi, dmesg); everything else goes on");
  const std::string broken = pages.where("trimtab_host_source_failures_total", "source", 0, true);
  findings.add(!broken.empty(), "sources", Health::kWarn, "reads failed: " + broken, "the agent's log says why");
}

void add_links(const Pages& pages, Findings& findings) {
  const std::string links = pages.where("trimtab_agent_link_fault", "link");
  findings.add(!links.empty(), "links", Health::kWarn,
               "worse than they were, by their own counters, 95 % sure at least: " + links,
               "the log says what they count; look at cables, slots and the other end ('nvidia-smi nvlink -s', "
               "'ibstat', 'lspci -vv')");
}

constexpr double kWrongClock = 1.0;
constexpr double kManyRefusals = 100;

// What became of agents' batches of costs.
Counter batches(const Pages& pages, const std::string& outcome) {
  return pages.counter("trimtab_cost_batches_total", "outcome=\"" + outcome + "\"");
}

// What could not be stored is tried again until it can be: only what still fails is a failure.
void add_storage(const Pages& pages, Findings& findings) {
  constexpr const char* kFull = "its state directory is full or cannot be written: jobs wait until it can";
  add_databases(pages, "trimtab_", findings);
  findings.add_growing_or_past(pages.counter("trimtab_state_failures_total"), "storage", Health::kFail,
                               " transitions could not be stored at once", kFull);
  findings.add_growing_or_past(batches(pages, "failed"), "storage", Health::kFail,
                               " batches of costs could not be stored at once",
                               "its cost database is full (its disk, or costs_limit), cannot be written or does not "
                               "answer; agents send them again until it can");
  findings.add_growing(pages.counter("trimtab_steps_dropped_total"), "storage", Health::kWarn,
                       " steps of ranks were dropped: their jobs waited for the state", kFull);
  findings.add_growing_or_past(pages.counter("trimtab_retention_failures_total"), "retention", Health::kWarn,
                               " attempts to remove what is over failed",
                               "the log says why; it is kept until its database can be written");
}

void add_strangers(const Pages& pages, Findings& findings) {
  const std::string refused = pages.where("trimtab_refused_total", "reason", kManyRefusals, true);
  findings.add(!refused.empty(), "access", Health::kWarn, "many were turned away: " + refused,
               "the log names their addresses and why");
  findings.add_growing_or_past(pages.counter("trimtab_refused_total", "reason=\"node\""), "tenants", Health::kWarn,
                               " times an agent's certificate or token did not show its node, or whose jobs it runs",
                               "the log names them and says what to do; docs/security.md, 'Whose jobs a node runs'");
  findings.add_growing(pages.counter("trimtab_frames_malformed_total"), "protocol", Health::kWarn,
                       " frames of agents were refused: no messages, or too many entries",
                       "the log names the nodes: see what runs there, and bring agents and coordinator to one release");
  const std::string foreign = pages.where("trimtab_foreign_messages_total", "what", 0, true);
  findings.add(!foreign.empty(), "nodes", Health::kWarn, "some spoke of what is another node's: " + foreign,
               "the log names them: look at what runs there");
}

}  // namespace

std::vector<Check> agent_checks(const Samples& page, const std::optional<EarlierPage>& earlier) {
  const auto value = [&](const char* name) { return sum_of(page, std::string("trimtab_agent_") + name); };
  const Pages pages{page, earlier};
  Findings findings("agent");
  findings.add(value("coordinator_connected") == 0, "link", Health::kWarn, "the coordinator does not know this agent",
               "its log says why: a wrong address, a certificate, a coordinator that is not there; costs are spooled "
               "until then");
  add_costs(pages, findings);
  add_disk(page, findings);
  add_rings(pages, findings);
  add_messages(pages, findings);
  findings.add(is_root_for_all(page), "root", Health::kWarn,
               "ranks run as root, and jobs of every tenant are admitted (`run_as_root`)",
               "run an agent as each user (trimtab-agent@USER), or name the one tenant that may (`tenant`); then take "
               "`run_as_root` away");
  findings.add(value("kill_switch") > 0, "kill switch", Health::kWarn,
               "thrown: ranks here take no plan but their incumbents", "trimtab kill-switch release");
  add_loop(value("loop_lag_seconds"), findings);
  findings.add(value("ranks_running") == 0 && value("resident_bytes") > value("idle_memory_budget_bytes"), "memory",
               Health::kWarn,
               bytes(value("resident_bytes")) + " without a rank, more than the budget of " +
                   bytes(value("idle_memory_budget_bytes")),
               "see docs/operating.md, 'An idle agent takes too much'");
  add_own_use(page, findings);
  if (earlier) add_rates(page, *earlier, findings);
  add_posts(pages, findings);
  add_sources(pages, findings);
  add_links(pages, findings);
  return std::move(findings).checks(counted(value("ranks_running")) + " ranks, connected to the coordinator");
}

std::vector<Check> coordinator_checks(const std::vector<MetricSample>& page,
                                      const std::optional<EarlierPage>& earlier) {
  const Pages pages{page, earlier};
  const auto nodes = [&](const std::string& state) {
    return value_of(page, "trimtab_nodes", "state=\"" + state + "\"").value_or(0);
  };
  Findings findings("coordinator");
  findings.add(nodes("lost") > 0, "nodes", Health::kWarn, counted(nodes("lost")) + " are lost",
               "'trimtab status' names them: look at their agents and the network between");
  add_storage(pages, findings);
  const std::string over = pages.where("trimtab_coordinator_over_budget", "what");
  findings.add(!over.empty(), "budget", Health::kWarn, "more than its budget: " + over,
               "see what grows, or raise memory_budget, cpu_budget, disk_budget or costs_limit");
  const std::string halted = pages.where("trimtab_job_halted", "job");
  findings.add(!halted.empty(), "jobs", Health::kWarn, "halted: " + halted,
               "its ranks crashed too often: mend what 'trimtab trials' says and hand it in again");
  const std::string held = pages.where("trimtab_node_kill_switch", "node");
  findings.add(!held.empty(), "kill switch", Health::kWarn, "thrown on " + held, "there: trimtab kill-switch release");
  const std::string wrong = pages.where("trimtab_node_clock_ahead_seconds", "node", kWrongClock);
  findings.add(!wrong.empty(), "clocks", Health::kWarn, "more than 1 s off: " + wrong,
               "let NTP or PTP set them; late ranks cannot be told there");
  add_strangers(pages, findings);
  // These stay as they are until a person does something.
  findings.add_ever(batches(pages, "refused"), "costs", " batches of agents are refused",
                    "the log says why; agents keep them in their own costs.db");
  findings.add_ever(batches(pages, "lost"), "costs", " batches of agents are lost",
                    "costs.db is an older copy: 'trimtab db merge' with the agents' own brings them back");
  add_posts(pages, findings);
  add_loop(sum_of(page, "trimtab_loop_lag_seconds"), findings);
  return std::move(findings).checks(counted(nodes("connected")) + " nodes connected");
}

}  // namespace trimtab::cli
