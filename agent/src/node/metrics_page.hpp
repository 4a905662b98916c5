#pragma once

// The page of metrics as requests get it: made anew at most every half second, and so many times a second for each
// caller. Every user of the machine may ask for it, and making it reads /proc of each rank on the loop that also reads
// the rings: however often it is asked for, it costs the training beside it nothing to speak of. The time comes in.
// Loop thread only.

#include "net/server.hpp"

namespace trimtab::agent {

class MetricsPage {
 public:
  // How old what is answered may be.
  static constexpr Nanoseconds kKept = std::chrono::milliseconds(500);
  // Of each caller, five seconds' worth at once. Whoever scrapes asks once in some seconds.
  static constexpr std::uint32_t kRequestsPerSecond = 20;
  // Of all callers, of whom each request beyond theirs costs a connection. Those that come faster wait to be taken.
  static constexpr std::uint32_t kConnectionsPerSecond = 100;

  // Who asks from an address of this machine; nothing: it is not known.
  using UserOf = std::function<std::optional<uid_t>(const std::string& address)>;
  MetricsPage(const Clock& clock, std::function<std::string()> make, UserOf user_of)
      : clock_(clock), make_(std::move(make)), user_of_(std::move(user_of)) {}

  // Of a request's head: why it is not answered now; nothing = it is. A caller is a certificate, else a user of this
  // machine, else an address.
  [[nodiscard]] std::optional<std::string> too_often(const net::HttpRequest& head);
  // As it was kKept ago, or later.
  [[nodiscard]] const std::string& text();

 private:
  [[nodiscard]] std::string caller(const net::HttpRequest& head) const;

  const Clock& clock_;
  std::function<std::string()> make_;
  UserOf user_of_;
  net::RequestRate rate_{kRequestsPerSecond};
  std::optional<Nanoseconds> made_;
  std::string text_;
};

// Jobs on a page of metrics that every user of the machine may read: in the place of a job's name stands a label that
// tells jobs apart, stays the same, and says nothing of them to who has not the agent's key.
class OpaqueJobs {
 public:
  // The key is in the file, which its user alone may read; made where there is none.
  [[nodiscard]] static Result<OpaqueJobs> open(const std::string& path);
  explicit OpaqueJobs(std::string key) : key_(std::move(key)) {}

  // Every label `job`.
  void hide(std::vector<net::Metric>& metrics) const;

 private:
  [[nodiscard]] std::string hidden(const std::string& labels) const;
  [[nodiscard]] std::string label_of(const std::string& job) const;

  std::string key_;
};

}  // namespace trimtab::agent
