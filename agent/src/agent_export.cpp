// The agent's metrics on their way out: a page that is asked for, and posts to an OpenTelemetry collector.

#include <spdlog/spdlog.h>

#include <utility>

#include "agent_state.hpp"
#include "net/certificates.hpp"
#include "net/loopback_host.hpp"
#include "processes/printable_text.hpp"

namespace trimtab::agent {

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
  metrics_page.emplace(clock, [this, names_jobs] { return page(names_jobs); });
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
