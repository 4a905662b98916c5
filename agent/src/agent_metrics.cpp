// The page of the agent's metrics: what its parts append, and what none of them knows.

#include <unistd.h>

#include <iterator>

#include "agent_state.hpp"
#include "host/process_facts.hpp"
#include "net/tokens.hpp"
#include "node/agent_metric.hpp"
#include "node/host_metrics.hpp"
#include "records/activity_report.hpp"

namespace trimtab::agent {

namespace {

void append(std::vector<net::Metric>& into, std::vector<net::Metric> more) {
  into.insert(into.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

void Agent::Implementation::append_links(std::vector<net::Metric>& all) const {
  all.push_back(
      counter("collective_stamps_sent", "Sampled collectives sent to be joined over ranks.", collectives_sent));
  all.push_back(counter("collective_stamps_dropped", "Sampled collectives dropped because the link was down.",
                        collectives_unsent));
  all.push_back(counter("link_frames_delayed",
                        "Times that the coordinator's frames came faster than max_message_rate or max_byte_rate and "
                        "were read later.",
                        link.counters().delayed));
  all.push_back(counter(
      "link_frames_refused",
      "Frames of the coordinator that were too large, had too many entries or were no messages: the link ended.",
      link.counters().too_large + conversation.counters().frames_malformed));
  all.push_back(counter("link_frames_unsent", "Messages that found link_queue full.", link.counters().refused));
  all.push_back(gauge("link_queue_bytes", "Bytes that wait for the coordinator to read.",
                      static_cast<double>(link.queued_bytes())));
  all.push_back(
      gauge("coordinator_connected", "1 while the coordinator knows this agent.", conversation.connected() ? 1 : 0));
  all.push_back(counter("batches_refused",
                        "Cost batches that the coordinator cannot ever take: they stay in costs.db alone.",
                        conversation.counters().batches_refused));
  all.push_back(counter("costs_dropped", "Values of costs for which neither the spool nor memory had room.",
                        collected.dropped()));
  all.push_back(gauge("costs_waiting", "Costs in memory: new ones, and those that found the spool or the disk full.",
                      static_cast<double>(collected.size())));
  all.push_back(counter("metrics_requests_refused",
                        "Requests for metrics that were refused: no TLS, no person's certificate, too many, too large, "
                        "too slow, malformed.",
                        requests_refused));
}

void Agent::Implementation::append_process(std::vector<net::Metric>& all) const {
  all.push_back(gauge(
      "root", "1 where ranks run as root; for jobs of this tenant, of all where it is empty.",
      ::geteuid() == 0 ? 1.0 : 0.0,
      "{tenant=\"" + net::label_value(configuration.tenant == net::kEveryTenant ? "" : configuration.tenant) + "\"}"));
  all.push_back(gauge("database_bytes", "The agent's databases on disk, with their logs.",
                      static_cast<double>(database_bytes())));
  all.push_back(
      gauge("loop_lag_seconds", "How late the loop was, lately.", std::chrono::duration<double>(loop_lag).count()));
  if (const auto self = host::read_process_facts("/", ::getpid()); self.ok()) {
    all.push_back(gauge("resident_bytes", "The agent's own memory.", static_cast<double>(self->resident_bytes)));
    all.push_back({"trimtab_agent_cpu_seconds_total", true, "The agent's own CPU time.",
                   std::chrono::duration<double>(self->cpu_time).count(), ""});
  }
  disk_use.append_metrics(all);
  own_use.append_metrics(all, ranks.running() > 0);
  const auto over = [&all](const char* what, bool is_over) {
    all.push_back(gauge("over_budget", "1 while the agent takes more than its budget.", is_over ? 1 : 0,
                        std::string("{what=\"") + what + "\"}"));
  };
  over("disk", disk_use.over());
  over("memory", own_use.over_memory());
  over("cpu", own_use.over_cpu());
}

std::vector<net::Metric> Agent::Implementation::metrics() const {
  std::vector<net::Metric> all;
  rings.append_metrics(all);
  sessions.append_metrics(all);
  costs->append_metrics(all);
  news.append_metrics(all);
  append_links(all);
  all.push_back(gauge("traces_running", "Traces that are being taken.", static_cast<double>(traces.running())));
  all.push_back(
      counter("jobs_removed", "Jobs whose directories here were removed, after job_retention.", retention.removed()));
  all.push_back(gauge("ranks_running", "Ranks that this agent looks after.", static_cast<double>(ranks.running())));
  all.push_back(gauge("commands_running", "Commands that run.", static_cast<double>(commands.running())));
  all.push_back(gauge("kill_switch",
                      "1 while the node's kill switch is thrown: ranks take no plan but their incumbents.",
                      kill_switch.thrown() ? 1 : 0));
  append_process(all);
  append(all, net::certificate_ends("trimtab_agent", tls.get()));
  if (exporter) exporter->append(all);
  append(all, rank_process_metrics(ranks.all(), "/"));
  if (sampler) append(all, host_metrics(sampler->samples()));
  add_activity_metrics(activities, all);
  collective_times.append(all);
  return all;
}

Bytes Agent::Implementation::database_bytes() const {
  Bytes sum = 0;
  for (const char* file : {"/agent.db", "/costs.db"}) sum += bytes_on_disk(configuration.state + file).value_or(0);
  return sum;
}

}  // namespace trimtab::agent
