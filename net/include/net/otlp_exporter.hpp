#pragma once

// Posts a daemon's metrics to an OpenTelemetry collector (OTLP/HTTP 1.x, JSON), once a period, beside whoever reads
// /metrics: the same page is the source of both. Each post has a connection of its own and a deadline (10 s, or the
// period where that is less); there is never more than one. Nothing is kept for a collector that is away: the next post
// carries newer values. Loop thread only; nothing blocks.

#include "net/event_loop.hpp"
#include "net/metric_text.hpp"
#include "net/otlp_settings.hpp"

namespace trimtab::net {

// Who posts: OpenTelemetry's resource.
struct OtlpResource {
  std::string service;   // service.name
  std::string instance;  // service.instance.id
  std::string version;   // service.version
  std::string host;      // host.name; empty: this machine's
  std::string node;      // trimtab.node; empty: left out
};

struct OtlpHandlers {
  std::function<std::string()> page;  // what /metrics would answer; asked for each post
  // Once per change of what becomes of the posts, for the log; `well`: the collector takes them.
  std::function<void(bool well, const std::string& what)> changed;
};

class OtlpExporter final {
 public:
  // The first post comes after a part of the period that `seed` draws, so that the daemons of a cluster do not post all
  // at once. Fails where a file of the settings cannot be used; both are read again later. Loop and clock must outlive
  // the exporter. REQUIRES: settings.endpoint.
  [[nodiscard]] static Result<std::unique_ptr<OtlpExporter>> start(EventLoop& loop, const Clock& clock,
                                                                   OtlpSettings settings, OtlpResource resource,
                                                                   OtlpHandlers handlers, std::uint64_t seed);
  // Ends a post that is on its way; no handler is called any more.
  ~OtlpExporter();

  // Its own metric, trimtab_otlp_exports_total.
  void append(std::vector<Metric>& into) const;

 private:
  struct Implementation;
  explicit OtlpExporter(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace trimtab::net
