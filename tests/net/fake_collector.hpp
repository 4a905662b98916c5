#pragma once

// A server as a collector may be, on a port of its own and a thread of its own, one connection after the other: plain
// sockets and OpenSSL, so that nothing of net's own HTTP judges itself.

#include <openssl/ssl.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "net/credentials.hpp"

namespace trimtab::net {

struct CollectorManner {
  std::string reply = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
  bool silent = false;   // reads what is sent, and waits for the other side to go
  bool endless = false;  // sends the reply, then 'x' until nobody takes it
};

class FakeCollector final {
 public:
  explicit FakeCollector(CollectorManner manner = {}, const CredentialFiles& tls = {});
  ~FakeCollector();
  FakeCollector(const FakeCollector&) = delete;
  FakeCollector& operator=(const FakeCollector&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  void behave(CollectorManner manner);
  // Heads and bodies that have come whole.
  [[nodiscard]] std::vector<std::string> requests() const;
  [[nodiscard]] std::size_t connections() const { return connections_; }
  // Connections that the other side has ended while it owed an answer.
  [[nodiscard]] std::size_t given_up() const { return given_up_; }

 private:
  struct SslDeleter {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  void serve();
  void serve_one(int descriptor);

  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::unique_ptr<SSL_CTX, SslDeleter> tls_;
  mutable std::mutex mutex_;
  CollectorManner manner_;
  std::vector<std::string> requests_;
  std::atomic<std::size_t> connections_{0};
  std::atomic<std::size_t> given_up_{0};
  std::atomic<int> open_{-1};
  std::thread thread_;
};

// A loopback port on which nothing listens, as far as anybody can know.
[[nodiscard]] std::uint16_t unused_port();

}  // namespace trimtab::net
