#pragma once

// The JSON API for people and scripts, /metrics and the status page: a table of routes and of what each asks of who
// calls it. Errors are {"error": "…"} with status 400, 401, 403, 404 or 409; another tenant's job is one that is not
// there. Event loop's thread only.

#include <string>
#include <utility>
#include <vector>

#include "api/access.hpp"
#include "base/clock.hpp"
#include "net/rate.hpp"

namespace trimtab::coordinator {

class JobTable;
struct Services;

class Api {
 public:
  // `requests_per_second` of each caller are answered.
  Api(Services& services, JobTable& jobs, const Access& access, std::uint32_t requests_per_second);

  // Of a request's head, also of an agent's: why it is turned down, which is logged and counted. Nothing: go on.
  [[nodiscard]] std::optional<net::HttpResponse> admit(const net::HttpRequest& head);
  [[nodiscard]] net::HttpResponse handle(const net::HttpRequest& request);
  // Methods and paths of all that is answered; {id} stands for a job's name, or a trace's number.
  [[nodiscard]] static std::vector<std::pair<std::string, std::string>> routes();

 private:
  [[nodiscard]] std::optional<net::HttpResponse> check_rate(const net::HttpRequest& head, const Caller& caller);
  // Of orders of a tenant: what is `audited` stands in the audit log, and each body is read and stored.
  [[nodiscard]] std::optional<net::HttpResponse> check_orders(const net::HttpRequest& request, const Caller& caller,
                                                              bool audited);
  // 429. `remedy`: what the caller may do.
  [[nodiscard]] net::HttpResponse too_often(const net::HttpRequest& request, const std::string& reason,
                                            const char* remedy);

  Services& services_;
  JobTable& jobs_;
  const Access& access_;
  net::RequestRate rate_;
  net::RequestRate orders_;
  net::RequestRate bodies_;  // KiB of orders
  Nanoseconds begun_;
};

}  // namespace trimtab::coordinator
