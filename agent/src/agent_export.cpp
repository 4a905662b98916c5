// The agent's metrics on their way to an OpenTelemetry collector.

#include <spdlog/spdlog.h>

#include <utility>

#include "agent_state.hpp"

namespace trimtab::agent {

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
