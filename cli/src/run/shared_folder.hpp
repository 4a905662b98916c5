#pragma once

// One job's authority, in a folder of a file system that the job's nodes share: who may read it is who runs the job.
// The first node makes a certificate authority and a token there and starts a coordinator that asks for both; the
// others find in it where that is, and issue themselves a certificate. Blocking.

#include "daemons/embedded.hpp"

namespace trimtab::cli {

// What the first node tells the others.
struct SharedCoordinator {
  std::vector<std::string> hosts;  // under which it may be reached, the likeliest first
  std::uint16_t port = 0;
  std::string node;  // where it runs
  std::string job;   // what the job is called
};
[[nodiscard]] std::string to_json(const SharedCoordinator& coordinator);
[[nodiscard]] Result<SharedCoordinator> parse_shared_coordinator(std::string_view json, std::string_view source);

class SharedFolder {
 public:
  // Makes it where it is not there. Refused where others may read it, or it is somebody else's: it holds keys.
  [[nodiscard]] static Result<SharedFolder> open(const std::string& path);

  // Whether `node` is the one that starts the coordinator: the first that asks.
  [[nodiscard]] Result<bool> claim(const std::string& node) const;
  // Who claimed it; empty = nobody.
  [[nodiscard]] std::string claimed_by() const;

  // For the node that has claimed it. Takes away what an earlier coordinator has told.
  [[nodiscard]] Result<SharedUp> found(const std::string& node, const Clock& clock) const;
  [[nodiscard]] Status publish(const SharedCoordinator& coordinator) const;
  // Others may claim it again.
  void leave() const;

  // For the others: nothing while nobody has told.
  [[nodiscard]] std::optional<SharedCoordinator> told() const;
  // The first of its hosts that answers.
  [[nodiscard]] Result<SharedUp> join(const SharedCoordinator& coordinator, const std::string& node,
                                      const Clock& clock) const;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit SharedFolder(std::string path) : path_(std::move(path)) {}
  [[nodiscard]] std::string in(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] net::CredentialFiles credentials(const std::string& name) const;
  // In files of the name `file`.
  [[nodiscard]] Status issue(const std::string& file, const net::CertificateRequest& request) const;
  [[nodiscard]] Status make_authority(const Clock& clock) const;
  [[nodiscard]] Status make_tokens() const;
  [[nodiscard]] Address asked_at(const std::string& host, std::uint16_t port) const;
  std::string path_;
};

// This machine's addresses and name, as others may reach it, the addresses first.
[[nodiscard]] std::vector<std::string> reachable_hosts();

}  // namespace trimtab::cli
