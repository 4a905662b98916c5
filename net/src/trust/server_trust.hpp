#pragma once

// Whom a client of somebody else's server believes: the authorities of a PEM file, or the system's. TLS 1.2 or newer;
// the client shows no certificate. One thread.

#include <memory>
#include <string>

#include "base/result.hpp"
#include "stream.hpp"
#include "trust/watched_file.hpp"

namespace trimtab::net {

class ServerTrust final {
 public:
  // `authority` empty: the system's, as they are now.
  [[nodiscard]] static Result<ServerTrust> load(const std::string& authority);

  // Reads the file again where it has changed. After an error the old authorities stay in use.
  [[nodiscard]] Status renew();
  [[nodiscard]] TlsContext& context() { return *context_; }

 private:
  explicit ServerTrust(const std::string& authority) : file_(authority) {}
  [[nodiscard]] Status read();

  WatchedFile file_;
  std::unique_ptr<TlsContext> context_;
};

}  // namespace trimtab::net
