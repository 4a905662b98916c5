#include <string>
#include <utility>

#include "doctor/findings.hpp"

namespace trimtab::cli {

namespace {

constexpr double kWrongClock = 1.0;
constexpr double kManyRefusals = 100;

// What became of agents' batches of costs: these stay as they are until a person does something.
void add_batches(const Pages& pages, const std::string& outcome, Findings& findings) {
  const Counter batches = pages.counter("trimtab_cost_batches_total", "outcome=\"" + outcome + "\"");
  findings.add(batches.total > 0, "costs", Health::kWarn,
               counted(batches.total) + " batches of agents are " + outcome + since_start(batches),
               outcome == "lost" ? "costs.db is an older copy: 'trimtab db merge' with the agents' own brings them back"
                                 : "the log says why; agents keep them in their own costs.db");
}

// What could not be stored is tried again until it can be: only what still fails is a failure.
void add_storage(const Pages& pages, Findings& findings) {
  const Counter transitions = pages.counter("trimtab_state_failures_total");
  const std::string late = counted(transitions.total) + " transitions could not be stored at once";
  findings.add(transitions.grown > 0, "storage", Health::kFail, late,
               "its state directory is full or cannot be written: jobs wait until it can");
  findings.add_past(transitions, "storage", late);
  const Counter batches = pages.counter("trimtab_cost_batches_total", "outcome=\"failed\"");
  const std::string unstored = counted(batches.total) + " batches of costs could not be stored at once";
  findings.add(
      batches.grown > 0, "storage", Health::kFail, unstored,
      "its cost database is full (its disk, or costs_limit), cannot be written or does not answer; agents send them "
      "again until it can");
  findings.add_past(batches, "storage", unstored);
  const Counter steps = pages.counter("trimtab_steps_dropped_total");
  findings.add(steps.grown > 0, "storage", Health::kWarn,
               counted(steps.total) + " steps of ranks were dropped: their jobs waited for the state",
               "its state directory is full or cannot be written: jobs wait until it can");
  const Counter removals = pages.counter("trimtab_retention_failures_total");
  const std::string kept = counted(removals.total) + " attempts to remove what is over failed";
  findings.add(removals.grown > 0, "retention", Health::kWarn, kept,
               "the log says why; it is kept until its database can be written");
  findings.add_past(removals, "retention", kept);
}

void add_strangers(const Pages& pages, Findings& findings) {
  const std::string refused = pages.where_grown("trimtab_refused_total", "reason", kManyRefusals);
  findings.add(!refused.empty(), "access", Health::kWarn, "many were turned away: " + refused,
               "the log names their addresses and why");
  const Counter nodes = pages.counter("trimtab_refused_total", "reason=\"node\"");
  const std::string unknown =
      counted(nodes.total) + " times an agent's certificate or token did not show its node, or whose jobs it runs";
  findings.add(nodes.grown > 0, "tenants", Health::kWarn, unknown,
               "the log names them and says what to do; docs/security.md, 'Whose jobs a node runs'");
  findings.add_past(nodes, "tenants", unknown);
  const Counter frames = pages.counter("trimtab_frames_malformed_total");
  findings.add(frames.grown > 0, "protocol", Health::kWarn,
               counted(frames.total) + " frames of agents were refused: no messages, or too many entries",
               "the log names the nodes: see what runs there, and bring agents and coordinator to one release");
  const std::string foreign = pages.where_grown("trimtab_foreign_messages_total", "what");
  findings.add(!foreign.empty(), "nodes", Health::kWarn, "some spoke of what is another node's: " + foreign,
               "the log names them: look at what runs there");
}

}  // namespace

std::vector<Check> coordinator_checks(const std::vector<MetricSample>& page,
                                      const std::optional<EarlierPage>& earlier) {
  const Pages pages(page, earlier);
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
  for (const char* outcome : {"refused", "lost"}) add_batches(pages, outcome, findings);
  add_posts(pages, findings);
  add_loop(sum_of(page, "trimtab_loop_lag_seconds"), findings);
  return std::move(findings).checks(counted(nodes("connected")) + " nodes connected");
}

}  // namespace trimtab::cli
