#include "api/metrics.hpp"

#include <map>
#include <sstream>
#include <vector>

#include "net/certificate_ends.hpp"
#include "net/metric_text.hpp"
#include "schema/database.hpp"

namespace trimtab::coordinator {
namespace {

class Page {
 public:
  void family(const char* name, const char* type, const char* help) {
    out_ << "# HELP " << name << ' ' << help << "\n# TYPE " << name << ' ' << type << '\n';
  }
  void sample(const char* name, const std::string& labels, double value) {
    out_ << name << labels << ' ' << net::metric_number(value) << '\n';
  }
  void single(const char* name, const char* type, const char* help, double value) {
    family(name, type, help);
    sample(name, "", value);
  }
  void labelled(const char* name, const char* type, const char* help, const char* label,
                const std::map<std::string, double>& values) {
    family(name, type, help);
    for (const auto& [value, count] : values) {
      sample(name, "{" + std::string(label) + "=\"" + value + "\"}", count);
    }
  }
  void histogram(const char* name, const char* help, const net::Histogram& values) {
    std::vector<net::Metric> samples;
    values.append(samples, name, help);
    append(samples);
  }
  void append(const std::vector<net::Metric>& samples) { out_ << net::render_metrics(samples); }
  [[nodiscard]] std::string text() const { return out_.str(); }

 private:
  std::ostringstream out_;
};

void count_trials(const TuningState& state, std::map<std::string, double>& trials) {
  for (const Trial& trial : state.trials) ++trials[std::string(to_string(trial.state))];
  const std::pair<TrialState, std::int32_t> forgotten[] = {{TrialState::kAdopted, state.forgotten.adopted},
                                                           {TrialState::kRejected, state.forgotten.rejected},
                                                           {TrialState::kFailed, state.forgotten.failed}};
  for (const auto& [of, count] : forgotten) {
    if (count > 0) trials[std::string(to_string(of))] += count;
  }
}

void job_metrics(Page& page, const JobTable& jobs) {
  std::map<std::string, double> phases;
  std::map<std::string, double> trials;
  std::map<std::string, double> step_seconds;
  std::map<std::string, double> steps;
  std::map<std::string, double> halted;
  std::map<std::string, double> held;
  std::map<std::string, double> overhead;
  for (const auto& [name, job] : jobs.jobs()) {
    ++phases[std::string(to_string(job->state().phase))];
    count_trials(job->state(), trials);
    if (!job->active()) continue;  // a series for each run of the last months would be too many
    // Job names are [A-Za-z0-9._-]: nothing in them needs escaping.
    step_seconds[name] = job->state().step_ms / 1e3;
    steps[name] = static_cast<double>(job->state().step);
    halted[name] = job->state().doing == Doing::kHalted ? 1 : 0;
    held[name] = job->held_by().empty() ? 0 : 1;
    overhead[name] = job->state().overhead_share();
  }
  page.labelled("trimtab_jobs", "gauge", "Jobs by phase.", "phase", phases);
  page.labelled("trimtab_trials", "gauge", "Trials of the known jobs by state.", "state", trials);
  page.labelled("trimtab_job_step_seconds", "gauge", "Last training step of a job that is not over.", "job",
                step_seconds);
  page.labelled("trimtab_job_halted", "gauge",
                "1 = its ranks crashed too often; nothing runs until it is handed in again.", "job", halted);
  page.labelled("trimtab_job_step", "gauge", "Number of the last training step of a job that is not over.", "job",
                steps);
  page.labelled("trimtab_job_held", "gauge", "1 while a job's plan must stay: frozen, or a kill switch is thrown.",
                "job", held);
  page.labelled("trimtab_job_overhead_ratio", "gauge",
                "What tuning has cost beyond the incumbent's steps, as a share of the time that the job takes.", "job",
                overhead);
}

void step_metrics(Page& page, const JobTable& jobs) {
  std::vector<net::Metric> samples;
  for (const auto& [name, job] : jobs.jobs()) {
    if (!job->active()) continue;
    job->step_times().append(samples, "trimtab_job_step_duration_seconds", "Training steps of the jobs that run.",
                             "{job=\"" + name + "\"}");
  }
  page.append(samples);
}

void collective_metrics(Page& page, const Counters& counters) {
  const JoinCounters& join = counters.collectives;
  page.labelled("trimtab_collectives_total", "counter", "Sampled collectives, by what became of their join over ranks.",
                "outcome",
                {{"joined", static_cast<double>(join.joined)},
                 {"incomplete", static_cast<double>(join.incomplete)},
                 {"repeated", static_cast<double>(join.repeated)},
                 {"contradictory", static_cast<double>(join.contradictory)},
                 {"implausible", static_cast<double>(join.implausible)},
                 {"unfit", static_cast<double>(join.unfit)},
                 {"dropped", static_cast<double>(counters.collective_costs_dropped)}});
  const TransferCounters& transfers = counters.transfers;
  page.labelled("trimtab_transfers_total", "counter",
                "Sampled sends and receives, by what became of their join (unfit and dropped: of either of the two).",
                "outcome",
                {{"joined", static_cast<double>(transfers.joined)},
                 {"alone", static_cast<double>(transfers.alone)},
                 {"unfit", static_cast<double>(transfers.unfit)},
                 {"dropped", static_cast<double>(transfers.dropped)}});
  page.single("trimtab_collective_late_unsure_total", "counter",
              "Joined collectives to which a rank seemed to come late, by less than the clocks' bounds prove.",
              static_cast<double>(join.unsure));
  page.single("trimtab_collective_clocks_contradict_total", "counter",
              "Joined collectives whose ends contradict the clocks of their hosts.",
              static_cast<double>(join.clocks_wrong));
  const auto ranks = [&](const char* name, const char* help, auto value) {
    page.family(name, "counter", help);
    for (const auto& [rank, seen] : counters.waiting) {
      page.sample(name, "{job=\"" + rank.first + "\",rank=\"" + std::to_string(rank.second) + "\"}", value(seen));
    }
  };
  ranks("trimtab_collective_waiting_seconds_total", "Time in joined collectives in which a rank waited for later ones.",
        [](const RankWaiting& rank) { return rank.waiting_seconds; });
  ranks("trimtab_collective_transfer_seconds_total", "Time in joined collectives after all ranks had come.",
        [](const RankWaiting& rank) { return rank.transfer_seconds; });
  ranks("trimtab_collective_joined_total", "Joined collectives of a rank.",
        [](const RankWaiting& rank) { return static_cast<double>(rank.collectives); });
  ranks("trimtab_collective_late_total", "Joined collectives in which the others waited for this rank.",
        [](const RankWaiting& rank) { return static_cast<double>(rank.late); });
}

void clock_metrics(Page& page, const NodeClocks& clocks) {
  std::map<std::string, double> ahead;
  std::map<std::string, double> unsure;
  for (const auto& [node, offset] : clocks.latest()) {
    ahead[net::label_value(node)] = static_cast<double>(offset.ns) / 1e9;
    unsure[net::label_value(node)] = static_cast<double>(offset.uncertainty_ns) / 1e9;
  }
  page.labelled("trimtab_node_clock_ahead_seconds", "gauge", "A node's clock less the coordinator's, by heartbeats.",
                "node", ahead);
  page.labelled("trimtab_node_clock_uncertainty_seconds", "gauge", "The true difference lies within this, either way.",
                "node", unsure);
}

void counter_metrics(Page& page, const Counters& counters) {
  page.labelled("trimtab_cost_batches_total", "counter", "Batches of costs from agents.", "outcome",
                {{"stored", static_cast<double>(counters.batches_stored)},
                 {"repeated", static_cast<double>(counters.batches_repeated)},
                 {"refused", static_cast<double>(counters.batches_refused)},
                 {"lost", static_cast<double>(counters.batches_lost)},
                 {"failed", static_cast<double>(counters.batches_failed)}});
  page.labelled("trimtab_cost_entries_total", "counter", "Costs in those batches.", "outcome",
                {{"read", static_cast<double>(counters.cost_entries)},
                 {"refused", static_cast<double>(counters.cost_entries_refused)}});
  page.single("trimtab_frames_malformed_total", "counter",
              "Frames from agents that could not be read, or had too many entries to be.",
              static_cast<double>(counters.frames_malformed));
  page.single("trimtab_frames_delayed_total", "counter",
              "Times that an agent's frames came faster than max_message_rate or max_byte_rate and were read later.",
              static_cast<double>(counters.frames_delayed));
  page.single("trimtab_rank_events_total", "counter", "What ranks said or did.",
              static_cast<double>(counters.rank_events));
  page.single("trimtab_searches_total", "counter", "Searches asked of the tuner.",
              static_cast<double>(counters.searches));
  page.histogram("trimtab_search_seconds", "How long searches took, waiting for others included.",
                 counters.search_times);
  page.histogram("trimtab_cost_batch_commit_seconds",
                 "How long it took to store batches of costs, those of some milliseconds together.",
                 counters.commit_times);
  page.single("trimtab_state_failures_total", "counter", "Transitions that could not be stored at once.",
              static_cast<double>(counters.state_failures));
  page.single("trimtab_steps_dropped_total", "counter",
              "Steps of ranks dropped because too many waited for a state that could not be stored.",
              static_cast<double>(counters.steps_dropped));
  page.labelled("trimtab_forgotten_total", "counter", "What was removed because it was over for long enough.", "what",
                {{"runs", static_cast<double>(counters.runs_forgotten)},
                 {"audit_entries", static_cast<double>(counters.audit_forgotten)}});
  page.single("trimtab_retention_failures_total", "counter", "Attempts to remove what is over that failed.",
              static_cast<double>(counters.retention_failures));
  page.single("trimtab_loop_lag_seconds", "gauge", "How late the event loop's last timer was.",
              counters.loop_lag_seconds);
  page.single("trimtab_loop_lag_max_seconds", "gauge", "The latest that a timer of the event loop ever was.",
              counters.loop_lag_max_seconds);
}

void budget_metrics(Page& page, const OwnUseWatch& own_use) {
  const Budgets& budgets = own_use.budgets();
  page.single("trimtab_coordinator_memory_budget_bytes", "gauge", "Memory that it takes before it warns.",
              static_cast<double>(budgets.memory));
  page.single("trimtab_coordinator_cpu_budget_cores", "gauge", "The same of processor time, over a minute.",
              budgets.cores);
  page.single("trimtab_coordinator_disk_budget_bytes", "gauge", "The same of disk, for databases that are files.",
              static_cast<double>(budgets.disk));
  page.single("trimtab_coordinator_costs_limit_bytes", "gauge",
              "What the rows of the cost database take, where it is a file, before no more costs are stored.",
              static_cast<double>(budgets.costs));
  page.single("trimtab_coordinator_cpu_cores", "gauge", "Processor time that it took over the last whole minute.",
              own_use.cpu_cores());
  std::map<std::string, double> over;
  for (const auto& [what, is_over] : own_use.over()) over[what] = is_over ? 1 : 0;
  page.labelled("trimtab_coordinator_over_budget", "gauge", "1 while it takes more than its budget.", "what", over);
}

}  // namespace

std::string metrics_text(const Services& services, const JobTable& jobs) {
  Page page;
  std::map<std::string, double> nodes = {{"connected", 0}, {"disconnected", 0}, {"lost", 0}};
  std::map<std::string, double> switches;
  for (const auto& [name, member] : services.members.members()) {
    ++nodes[member.lost ? "lost" : member.peer != 0 ? "connected" : "disconnected"];
    switches[net::label_value(name)] = member.kill_switch ? 1 : 0;
  }
  page.labelled("trimtab_node_kill_switch", "gauge", "1 while a node's kill switch is thrown.", "node", switches);
  page.labelled("trimtab_nodes", "gauge", "Nodes by state.", "state", nodes);
  job_metrics(page, jobs);
  step_metrics(page, jobs);
  counter_metrics(page, services.counters);
  collective_metrics(page, services.counters);
  clock_metrics(page, services.clocks);
  // All from the first scrape on: a counter that appears with its first event hides it.
  std::map<std::string, double> refusals = {{"tls", 0},       {"unauthenticated", 0},
                                            {"forbidden", 0}, {"agent", 0},
                                            {"foreign", 0},   {"malformed", 0},
                                            {"too_large", 0}, {"slow", 0},
                                            {"full", 0},      {"job", 0},
                                            {"rate", 0},      {"node", 0}};
  for (const auto& [reason, count] : services.refusals.counts()) refusals[reason] = count;
  page.labelled("trimtab_refused_total", "counter", "Connections and requests that were turned away, by why.", "reason",
                refusals);
  std::map<std::string, double> foreign = {{"rank", 0},       {"command", 0},  {"trace", 0}, {"activity", 0},
                                           {"collective", 0}, {"instance", 0}, {"launch", 0}};
  for (const auto& [what, count] : services.foreign.counts()) foreign[what] = count;
  page.labelled("trimtab_foreign_messages_total", "counter",
                "Messages of nodes about ranks, commands and traces of others, which changed nothing.", "what",
                foreign);
  if (const auto keys = services.cost_count.lately()) {
    page.single("trimtab_cost_keys", "gauge", "Keys that costs of any hardware and source are stored under.",
                static_cast<double>(*keys));
  }
  page.append(net::certificate_ends("trimtab_coordinator", services.tls.get()));
  if (services.exporter) {
    std::vector<net::Metric> exports;
    services.exporter->append(exports);
    page.append(exports);
  }
  std::map<std::string, double> databases;
  if (const auto bytes = bytes_on_disk(services.store.name())) databases["state"] = static_cast<double>(*bytes);
  if (const auto bytes = bytes_on_disk(services.costs.name())) databases["costs"] = static_cast<double>(*bytes);
  page.labelled("trimtab_database_bytes", "gauge", "Databases on disk, where they are files, with their logs.",
                "database", databases);
  const OwnUse use = measure_own_use({});
  page.single("process_resident_memory_bytes", "gauge", "Resident memory.", use.memory_bytes);
  page.single("process_cpu_seconds_total", "counter", "CPU time, user and system.", use.cpu_seconds);
  if (services.own_use) budget_metrics(page, *services.own_use);
  return page.text();
}

}  // namespace trimtab::coordinator
