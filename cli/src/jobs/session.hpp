#pragma once

// A coordinator to work with: the one that was named, the one that is up, or one of our own that ends with us.

#include "jobs/coordinator_client.hpp"
#include "verbs/verb.hpp"

namespace trimtab::cli {

struct SessionFlags {
  std::string coordinator;  // HOST:PORT
  std::string state;
  net::CredentialFiles tls;
  std::string token_file;
  std::string coordinator_user = net::kPackagedCoordinator;
  bool keep_up = false;
};

void add_coordinator_flags(CLI::App* verb, SessionFlags& flags);

class Session {
 public:
  // Starts the embedded daemons with that many devices where nothing is named and nothing is up.
  [[nodiscard]] static Result<std::unique_ptr<Session>> open(const SessionFlags& flags, std::int32_t devices,
                                                             const Clock& clock, Console& console);
  // Brings down what open() has started, unless it is to stay.
  ~Session();
  // What open() has started stays up.
  [[nodiscard]] Status keep_up();
  // The flag by which other verbs find this coordinator, with a space in front; empty where they need none.
  [[nodiscard]] const std::string& flag() const { return flag_; }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  [[nodiscard]] const CoordinatorClient& client() const { return client_; }

 private:
  Session(CoordinatorClient client, std::string owned_state, std::string flag, const Clock& clock, Console& console)
      : client_(std::move(client)),
        owned_state_(std::move(owned_state)),
        flag_(std::move(flag)),
        clock_(clock),
        console_(console) {}
  CoordinatorClient client_;
  std::string owned_state_;  // empty = not ours to bring down
  std::string flag_;
  const Clock& clock_;
  Console& console_;
};

// For verbs that only ask: the coordinator that is named or up.
[[nodiscard]] Result<CoordinatorClient> existing_coordinator(const SessionFlags& flags);

// The name of the coordinator's job that is `wanted`, or of its only one where that is empty.
[[nodiscard]] Result<std::string> chosen_job(const CoordinatorClient& client, const std::string& wanted);

}  // namespace trimtab::cli
