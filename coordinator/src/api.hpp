#pragma once

// The JSON API for people and scripts, /metrics and the status page: a table of routes. Errors are {"error": "…"} with
// status 400, 404 or 409. Event loop's thread only.

#include "base/clock.hpp"
#include "job_table.hpp"
#include "net/server.hpp"
#include "services.hpp"

namespace trimtab::coordinator {

class Api {
 public:
  Api(Services& services, JobTable& jobs);

  [[nodiscard]] net::HttpResponse handle(const net::HttpRequest& request);

 private:
  Services& services_;
  JobTable& jobs_;
  Nanoseconds begun_;
};

}  // namespace trimtab::coordinator
