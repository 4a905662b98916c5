// The agent's metrics: what its parts append, and what none of them knows; on their way out as a page that is asked
// for, and in posts to an OpenTelemetry collector.

#include <spdlog/spdlog.h>

#include <iterator>

#include "agent_state.hpp"
#include "host/process_facts.hpp"
#include "net/host_text.hpp"
#include "net/local_user.hpp"
#include "net/tokens.hpp"
#include "node/agent_metric.hpp"
#include "node/host_metrics.hpp"
#include "processes/printable_text.hpp"
#include "records/activity_report.hpp"

namespace trimtab::agent {

namespace {

void append(std::vector<net::Metric>& into, std::vector<net::Metric> more) {
  into.insert(into.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

void Agent::Implementation::append_links(std::vector<net::Metric>& all) const {
  const net::Link::Counters& counted = link.counters();
  const CoordinatorConversation::Counters& said = conversation.counters();
  add_counter(all, "collective_stamps_sent", "Sampled collectives sent to be joined over ranks.", collectives_sent);
  add_counter(all, "collective_stamps_dropped", "Sampled collectives dropped because the link was down.",
              collectives_unsent);
  add_counter(all, "link_frames_delayed",
              "Times that the coordinator's frames came faster than max_message_rate or max_byte_rate and were read "
              "later.",
              counted.delayed);
  add_counter(
      all, "link_frames_refused",
      "Frames of the coordinator that were too large, had too many entries or were no messages: the link ended.",
      counted.too_large + said.frames_malformed);
  add_counter(all, "link_frames_unsent", "Messages that found link_queue full.", counted.refused);
  add_gauge(all, "link_queue_bytes", "Bytes that wait for the coordinator to read.", link.queued_bytes());
  add_gauge(all, "coordinator_connected", "1 while the coordinator knows this agent.", conversation.connected());
  add_counter(all, "batches_refused",
              "Cost batches that the coordinator cannot ever take: they stay in costs.db alone.", said.batches_refused);
  add_counter(all, "costs_dropped", "Values of costs for which neither the spool nor memory had room.",
              collected.dropped());
  add_gauge(all, "costs_waiting", "Costs in memory: new ones, and those that found the spool or the disk full.",
            collected.size());
  add_counter(all, "metrics_requests_refused",
              "Requests for metrics that were refused: no TLS, no person's certificate, too many, too large, too slow, "
              "malformed.",
              requests_refused);
}

void Agent::Implementation::append_process(std::vector<net::Metric>& all) const {
  const bool of_all = configuration.tenant == net::kEveryTenant;
  add_gauge(all, "root", "1 where ranks run as root; for jobs of this tenant, of all where it is empty.",
            ::geteuid() == 0, net::labels({{"tenant", of_all ? "" : configuration.tenant}}));
  Bytes databases = 0;
  for (const char* file : {"/agent.db", "/costs.db"}) {
    databases += bytes_on_disk(configuration.state + file).value_or(0);
  }
  add_gauge(all, "database_bytes", "The agent's databases on disk, with their logs.", databases);
  for (const StorageWatch::Seen& one : storage.all()) {
    const std::string of = net::labels({{"database", one.name}});
    add_gauge(all, "database_out_of_place",
              "1 while a database stores nothing, since its file was removed or replaced.",
              !one.health.out_of_place.empty(), of);
    add_gauge(all, "database_log_unwatched",
              "1 while a log that is cut would not be noticed: the file beside it cannot be written.",
              !one.health.is_log_watched, of);
    add_gauge(all, "database_set_apart",
              "Rows, and parts of tables, that could not be read when a database was opened.", one.health.set_apart,
              of);
    all.push_back({"trimtab_agent_database_unreadable_rows_total", true,
                   "Rows that were read without their checksum, and left out.",
                   static_cast<double>(one.health.unreadable), of});
    add_gauge(all, "database_checking",
              "1 while a file that was too large to be checked when it was opened is checked beside the work.",
              one.health.is_checking, of);
    all.push_back({"trimtab_agent_database_checked_rows_total", true, "Rows that this has read.",
                   static_cast<double>(one.health.checked_rows), of});
  }
  add_gauge(all, "loop_lag_seconds", "How late the loop was, lately.", std::chrono::duration<double>(loop_lag).count());
  if (const auto self = host::read_process_facts("/", ::getpid()); self.ok()) {
    add_gauge(all, "resident_bytes", "The agent's own memory.", self->resident_bytes);
    all.push_back({"trimtab_agent_cpu_seconds_total", true, "The agent's own CPU time.",
                   std::chrono::duration<double>(self->cpu_time).count(), ""});
  }
  disk_use.append_metrics(all);
  own_use.append_metrics(all, ranks.running() > 0);
  const auto over = [&all](const char* what, bool is_over) {
    add_gauge(all, "over_budget", "1 while the agent takes more than its budget.", is_over,
              net::labels({{"what", what}}));
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
  add_gauge(all, "traces_running", "Traces that are being taken.", traces.running());
  add_counter(all, "jobs_removed", "Jobs whose directories here were removed, after job_retention.",
              retention.removed());
  add_gauge(all, "ranks_running", "Ranks that this agent looks after.", ranks.running());
  add_gauge(all, "ranks_prepared", "Processes that are prepared for a launch to come.", ranks.prepared().waiting());
  add_gauge(all, "commands_running", "Commands that run.", commands.running());
  add_gauge(all, "kill_switch", "1 while the node's kill switch is thrown: ranks take no plan but their incumbents.",
            kill_switch.thrown());
  append_process(all);
  append(all, net::certificate_ends("trimtab_agent", tls.get()));
  if (exporter) exporter->append(all);
  append(all, rank_process_metrics(ranks.all(), "/"));
  if (sampler) append(all, host_metrics(sampler->samples()));
  for (const host::LinkFault& one : links.faults()) {
    add_gauge(all, "link_fault", "How sure it is that a link is worse than it was; of such links alone.",
              one.confidence, net::labels({{"link", one.link}, {"reading", one.reading}}));
  }
  add_activity_metrics(activities, all);
  collective_times.append(all);
  return all;
}

Status Agent::Implementation::serve_metrics() {
  if (configuration.metrics_port == 0) return {};
  net::ServerOptions options;
  const bool for_others = !net::is_loopback_host(configuration.metrics_address);
  options.address = configuration.metrics_address;
  options.port = configuration.metrics_port;
  if (for_others) options.tls = tls;
  options.max_connections = 64;
  options.max_connection_rate = MetricsPage::kConnectionsPerSecond;
  options.max_body_bytes = 0;  // A page is asked for without one; and no WebSocket: nobody hears messages here.
  const bool names_jobs = for_others || configuration.metrics_name_jobs;
  if (!names_jobs) {
    TRIMTAB_TRY(opaque_jobs, OpaqueJobs::open(configuration.state + "/metrics.key"));
    spdlog::info(
        "every user of this machine can read the metrics at {}:{}: jobs have opaque labels there (metrics_jobs = named "
        "shows their names)",
        configuration.metrics_address, configuration.metrics_port);
  }
  const auto user_of = [this](const std::string& client) {
    return net::local_user(client, configuration.metrics_address + ":" + std::to_string(metrics_server->port()));
  };
  metrics_page.emplace(
      clock, [this, names_jobs] { return page(names_jobs); }, user_of);
  const auto answer = [this](const net::HttpRequest& request) -> net::HttpResponse {
    if (request.path != "/metrics") return {404, "text/plain", "there is only /metrics\n"};
    return {200, "text/plain; version=0.0.4; charset=utf-8", metrics_page->text()};
  };
  net::ServerHandlers handlers{answer, {}, {}, {}};
  // Another node's agent has no business here.
  handlers.admit = [this, for_others](const net::HttpRequest& head) -> std::optional<net::HttpResponse> {
    if (auto why = metrics_page->too_often(head)) {
      refuse_request("rate", head.address, *why);
      return net::HttpResponse{429, "text/plain", *why + ": ask again in a second\n"};
    }
    if (!for_others || (head.peer && head.peer->kind == net::CertificateKind::kPerson)) return std::nullopt;
    const std::string shown =
        head.peer ? "'" + head.peer->name + "' is another certificate" : "it shows no certificate";
    refuse_request("forbidden", head.address,
                   "metrics are shown to a person's certificate alone, but " + shown + ": " +
                       net::issue_command({"NAME", net::CertificateKind::kPerson}) + " makes one");
    return net::HttpResponse{403, "text/plain", "metrics are shown to a person's certificate alone\n"};
  };
  handlers.refused = [this](const net::Refusal& refusal) {
    refuse_request(to_string(refusal.kind), refusal.address, refusal.reason);
  };
  auto server = net::Server::start(loop, std::move(options), std::move(handlers));
  if (!server.ok()) return wrap("metrics (choose with --metrics-port, 0 = off)", server.error());
  metrics_server = std::move(server).value();
  return {};
}

// Whoever reaches the port can cause it for ever.
void Agent::Implementation::refuse_request(std::string_view kind, const std::string& address,
                                           const std::string& reason) {
  constexpr std::size_t kMost = 400;
  ++requests_refused;
  const LogPace::Answer answer = requests_pace.next(clock.monotonic());
  if (answer.left_out > 0) spdlog::warn("{} more requests for metrics were refused since", answer.left_out);
  if (!answer.say) return;
  spdlog::warn("metrics: refused ({}): {}: {}", kind, address, printable_text(reason.substr(0, kMost)));
}

std::string Agent::Implementation::page(bool names_jobs) const {
  std::vector<net::Metric> all = metrics();
  if (!names_jobs) opaque_jobs->hide(all);
  return net::render_metrics(all);
}

Status Agent::Implementation::export_metrics() {
  if (!configuration.otlp.endpoint) return {};
  net::OtlpHandlers handlers;
  handlers.page = [this] { return net::render_metrics(metrics()); };
  handlers.changed = [](bool well, const std::string& what) {
    spdlog::log(well ? spdlog::level::info : spdlog::level::warn, "{}", what);
  };
  auto started =
      net::OtlpExporter::start(loop, clock, configuration.otlp,
                               {"trimtab-agent", state.instance, TRIMTAB_RELEASE, /*host=*/"", configuration.node},
                               std::move(handlers), random.next());
  if (!started.ok()) return wrap("posting metrics (otlp_endpoint)", started.error());
  exporter = std::move(started).value();
  return {};
}

}  // namespace trimtab::agent
