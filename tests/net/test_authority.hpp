#pragma once

// An authority made for a test, with its files.

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "loopback.hpp"
#include "net/certificates.hpp"
#include "net/credentials.hpp"

namespace trimtab::net {

class TestAuthority {
 public:
  TestAuthority(const TemporaryDirectory& directory, const std::string& name) : base_(directory / name) {
    const auto made = make_authority({{}, name, {}, SystemClock().wall(), std::chrono::hours(24 * 365)});
    REQUIRE(made.ok());
    authority_ = *made;
    store(certificate_file(), authority_.certificate);
  }

  [[nodiscard]] const Certificate& certificate() const { return authority_; }
  [[nodiscard]] std::string certificate_file() const { return base_ + ".crt"; }
  [[nodiscard]] CredentialFiles files(const std::string& name) const {
    return {certificate_file(), base_ + "-" + name + ".crt", base_ + "-" + name + ".key"};
  }

  CredentialFiles write(CertificateKind kind, const std::string& name, Nanoseconds now, Nanoseconds valid_for,
                        const std::vector<std::string>& hosts = {}, const std::string& tenant = "") const {
    const auto issued = issue_certificate(authority_, {kind, name, hosts, now, valid_for, tenant});
    REQUIRE(issued.ok());
    store(files(name).certificate, issued->certificate);
    store(files(name).key, issued->key);
    std::filesystem::permissions(files(name).key, std::filesystem::perms::owner_read);
    return files(name);
  }

  // Of a certificate by this authority; the owner trusts `trusted`, else this one, else the one of that file.
  [[nodiscard]] std::shared_ptr<Credentials> credentials(CertificateKind kind, const std::string& name,
                                                         const TestAuthority* trusted = nullptr,
                                                         std::vector<std::string> hosts = {},
                                                         const std::string& trusted_file = "") const {
    if (hosts.empty() && kind == CertificateKind::kCoordinator) hosts = {"127.0.0.1", "localhost"};
    const Nanoseconds now = SystemClock().wall();
    CredentialFiles given = write(kind, name, now, std::chrono::hours(24), hosts);
    // Its own must be signed by one that it trusts.
    if (trusted != nullptr) {
      given.authority = base_ + "-both.crt";
      store(given.authority, authority_.certificate + trusted->certificate().certificate);
    }
    if (!trusted_file.empty()) given.authority = trusted_file;
    auto loaded = Credentials::load(given, now);
    INFO((loaded.ok() ? "" : loaded.error().message));
    REQUIRE(loaded.ok());
    return std::move(loaded).value();
  }

  // A node's that names the tenant; empty: it names none.
  [[nodiscard]] std::shared_ptr<Credentials> node(const std::string& name, const std::string& tenant) const {
    const Nanoseconds now = SystemClock().wall();
    auto loaded = Credentials::load(write(CertificateKind::kNode, name, now, std::chrono::hours(24), {}, tenant), now);
    REQUIRE(loaded.ok());
    return std::move(loaded).value();
  }

 private:
  static void store(const std::string& path, const std::string& text) {
    std::filesystem::remove(path);
    std::ofstream(path) << text;
  }

  std::string base_;
  Certificate authority_;
};

}  // namespace trimtab::net
