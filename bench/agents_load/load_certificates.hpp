#pragma once

// Certificates for a run under mutual TLS: an authority, the coordinator's, a person's, and one for each node.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "net/credentials.hpp"

namespace trimtab::load {

struct LoadCertificates {
  net::CredentialFiles coordinator;
  std::vector<std::shared_ptr<net::Credentials>> nodes;  // by index
  std::shared_ptr<net::Credentials> person;              // who reads the metrics
};

[[nodiscard]] Result<LoadCertificates> make_certificates(const std::string& directory, std::uint32_t agents,
                                                         Nanoseconds now);

}  // namespace trimtab::load
