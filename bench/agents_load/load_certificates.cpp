#include "load_certificates.hpp"

#include <sys/stat.h>

#include <fstream>

#include "net/certificates.hpp"

namespace trimtab::load {

namespace {

Status write(const std::string& path, const std::string& text, mode_t mode) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (file && ::chmod(path.c_str(), mode) == 0) return {};
  return unavailable("couldn't write " + path);
}

net::CertificateRequest request(net::CertificateKind kind, const std::string& name, Nanoseconds now) {
  return {kind, name, {}, now, std::chrono::hours(24)};
}

}  // namespace

Result<LoadCertificates> make_certificates(const std::string& directory, std::uint32_t agents, Nanoseconds now) {
  const auto file = [&](const std::string& name) { return directory + "/" + name; };
  const auto save = [&](const std::string& name, const net::Certificate& made) -> Result<net::CredentialFiles> {
    TRIMTAB_TRY_STATUS(write(file(name + ".pem"), made.certificate, 0644));
    TRIMTAB_TRY_STATUS(write(file(name + ".key"), made.key, 0600));
    return net::CredentialFiles{file("authority.pem"), file(name + ".pem"), file(name + ".key")};
  };
  using Kind = net::CertificateKind;
  TRIMTAB_TRY(const auto authority, net::make_authority(request(Kind::kAuthority, "load", now)));
  TRIMTAB_TRY_STATUS(write(file("authority.pem"), authority.certificate, 0644));
  net::CertificateRequest server = request(Kind::kCoordinator, "coordinator", now);
  server.hosts = {"127.0.0.1"};
  TRIMTAB_TRY(const auto issued, net::issue_certificate(authority, server));
  const auto client = [&](Kind kind, const std::string& name) -> Result<std::shared_ptr<net::Credentials>> {
    TRIMTAB_TRY(const auto certificate, net::issue_certificate(authority, request(kind, name, now)));
    TRIMTAB_TRY(const auto files, save(name, certificate));
    return net::Credentials::load(files, now);
  };
  LoadCertificates made;
  TRIMTAB_TRY(made.coordinator, save("coordinator", issued));
  TRIMTAB_TRY(made.person, client(Kind::kPerson, "prometheus"));
  for (std::uint32_t agent = 0; agent < agents; ++agent) {
    TRIMTAB_TRY(auto node, client(Kind::kNode, "node-" + std::to_string(agent)));
    made.nodes.push_back(std::move(node));
  }
  return made;
}

}  // namespace trimtab::load
