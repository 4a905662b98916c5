#include "net/certificates.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

using namespace trimtab;
using namespace trimtab::net;
using namespace std::chrono_literals;

namespace {

constexpr Nanoseconds kNow = std::chrono::seconds(1'800'000'000);
constexpr Nanoseconds kYear = 24h * 365;

CertificateRequest request_for(CertificateKind kind, const std::string& name, std::vector<std::string> hosts = {}) {
  return {kind, name, std::move(hosts), kNow, kYear};
}

Certificate an_authority() {
  const auto made = make_authority(request_for(CertificateKind::kAuthority, "cluster"));
  REQUIRE(made.ok());
  return *made;
}

}  // namespace

TEST_CASE("a certificate says whose it is, what for, by whom, where and until when") {
  const auto issued = issue_certificate(
      an_authority(), request_for(CertificateKind::kCoordinator, "c0", {"c0.example", "10.0.0.1", "::1"}));
  REQUIRE(issued.ok());
  const auto described = describe_certificate(issued->certificate, "c0.crt");
  REQUIRE(described.ok());
  CHECK(described->owner.name == "c0");
  CHECK(described->owner.kind == CertificateKind::kCoordinator);
  CHECK(described->owner.expires == kNow + kYear);
  CHECK(described->valid_from < kNow);
  CHECK(described->issuer == "cluster");
  CHECK(described->hosts == std::vector<std::string>{"c0.example", "10.0.0.1", "0:0:0:0:0:0:0:1"});
  CHECK(described->serial.size() == 40);
  CHECK(issued->key.find("BEGIN PRIVATE KEY") != std::string::npos);
}

TEST_CASE("a node's certificate names the tenant whose jobs it may run, beside the hosts that it is asked under") {
  const Certificate authority = an_authority();
  const auto issued = [&](CertificateKind kind, const std::string& tenant, std::vector<std::string> hosts = {}) {
    CertificateRequest request = request_for(kind, "n0", std::move(hosts));
    request.tenant = tenant;
    return issue_certificate(authority, request);
  };
  for (const std::string& tenant : {std::string("ana"), std::string("*"), std::string("a@b.c_d-1"),
                                    std::string("@section"), std::string(64, 'a')}) {
    INFO(tenant);
    const auto made = issued(CertificateKind::kNode, tenant, {"n0.lab", "10.0.0.1"});
    REQUIRE(made.ok());
    const auto described = describe_certificate(made->certificate, "n0.crt");
    REQUIRE(described.ok());
    CHECK(described->owner.tenant == tenant);
    CHECK(described->hosts == std::vector<std::string>{"n0.lab", "10.0.0.1"});
  }
  const auto alone = describe_certificate(issued(CertificateKind::kNode, "ana")->certificate, "n0.crt");
  CHECK(alone->owner.tenant == "ana");
  CHECK(alone->hosts.empty());
  CHECK_FALSE(describe_certificate(issued(CertificateKind::kNode, "")->certificate, "n0.crt")->owner.tenant);
  for (const std::string& tenant : {std::string("a b"), std::string("a,URI:trimtab:tenant:*"), std::string("a:b"),
                                    std::string("**"), std::string(65, 'a'), std::string("a\n")}) {
    INFO(tenant);
    CHECK_FALSE(issued(CertificateKind::kNode, tenant).ok());
  }
  CHECK_FALSE(issued(CertificateKind::kPerson, "ana").ok());
  CHECK_FALSE(issued(CertificateKind::kCoordinator, "ana", {"c0.lab"}).ok());
}

TEST_CASE("no two certificates have one serial number or one key") {
  const Certificate authority = an_authority();
  const auto one = issue_certificate(authority, request_for(CertificateKind::kNode, "n0"));
  const auto two = issue_certificate(authority, request_for(CertificateKind::kNode, "n0"));
  REQUIRE(one.ok());
  REQUIRE(two.ok());
  CHECK(one->key != two->key);
  CHECK(describe_certificate(one->certificate, "")->serial != describe_certificate(two->certificate, "")->serial);
}

TEST_CASE("a certificate ends with its authority, and an authority that has ended signs nothing") {
  const Certificate authority = an_authority();
  CertificateRequest request = request_for(CertificateKind::kNode, "n0");
  request.valid_for = kYear * 10;
  const auto issued = issue_certificate(authority, request);
  REQUIRE(issued.ok());
  CHECK(describe_certificate(issued->certificate, "")->owner.expires == kNow + kYear);
  request.now = kNow + kYear + 1s;
  const auto late = issue_certificate(authority, request);
  REQUIRE_FALSE(late.ok());
  CHECK(late.error().message.find("expired") != std::string::npos);
}

TEST_CASE("requests that make no certificate are refused") {
  const Certificate authority = an_authority();
  const auto refused = [&](const CertificateRequest& request) {
    const auto issued = issue_certificate(authority, request);
    return issued.ok() ? "" : issued.error().message;
  };
  for (const std::string& name : {std::string(), std::string("../n0"), std::string("a/b"), std::string("a b"),
                                  std::string(".."), std::string(65, 'a'), std::string("n0\n")}) {
    INFO(name);
    CHECK(refused(request_for(CertificateKind::kNode, name)).find("name has 1 to 64") != std::string::npos);
  }
  for (const std::string host : {"", "a,DNS:b", "a;b", "section@x", "a b"}) {
    INFO(host);
    CHECK(refused(request_for(CertificateKind::kNode, "n0", {host})).find("a host is") != std::string::npos);
  }
  CHECK(refused(request_for(CertificateKind::kCoordinator, "c0")).find("needs the hosts") != std::string::npos);
  CHECK(refused(request_for(CertificateKind::kAuthority, "a")).find("no other authority") != std::string::npos);
  CertificateRequest request = request_for(CertificateKind::kNode, "n0");
  request.valid_for = 1h;
  CHECK(refused(request).find("days") != std::string::npos);
}

TEST_CASE("an authority whose key is another's is refused") {
  Certificate mixed = an_authority();
  mixed.key = an_authority().key;
  const auto issued = issue_certificate(mixed, request_for(CertificateKind::kNode, "n0"));
  REQUIRE_FALSE(issued.ok());
  CHECK(issued.error().message.find("key is not that of its certificate") != std::string::npos);
  mixed.key = "-----BEGIN ENCRYPTED PRIVATE KEY-----\n";
  CHECK_FALSE(issue_certificate(mixed, request_for(CertificateKind::kNode, "n0")).ok());
}

TEST_CASE("what is no certificate is refused by name") {
  for (const std::string text : {"", "hello", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}) {
    const auto described = describe_certificate(text, "x.crt");
    REQUIRE_FALSE(described.ok());
    CHECK(described.error().message.find("x.crt") != std::string::npos);
  }
}

TEST_CASE("the command that issues a certificate can be run as it stands") {
  const auto command = [](std::optional<CertificateKind> kind, const std::string& name,
                          const std::optional<std::string>& tenant = {}, const std::vector<std::string>& hosts = {}) {
    return issue_command({name, kind, Nanoseconds(0), tenant}, hosts);
  };
  CHECK(command(CertificateKind::kNode, "n0") == "'trimtab cert issue node n0 --dir CA_DIRECTORY --out n0'");
  CHECK(command(CertificateKind::kNode, "n0", "ana", {"n0.lab", "0:0:0:0:0:0:0:1"}) ==
        "'trimtab cert issue node n0 --tenant ana --host n0.lab --host 0:0:0:0:0:0:0:1 --dir CA_DIRECTORY --out n0'");
  CHECK(command(CertificateKind::kNode, "n0", "*") ==
        "'trimtab cert issue node n0 --tenant \"*\" --dir CA_DIRECTORY --out n0'");
  CHECK(command(CertificateKind::kPerson, "ana", "ana") ==
        "'trimtab cert issue person ana --dir CA_DIRECTORY --out ana'");
  // One without hosts would be refused.
  CHECK(command(CertificateKind::kCoordinator, "c0") ==
        "'trimtab cert issue coordinator c0 --host HOST --dir CA_DIRECTORY --out c0'");
  for (const std::optional<CertificateKind> kind : {std::optional<CertificateKind>(), {CertificateKind::kAuthority}}) {
    CHECK(command(kind, "lab") == "'trimtab cert issue KIND lab --dir CA_DIRECTORY --out lab'");
  }
}

TEST_CASE("what somebody else's authority wrote gets into no command") {
  const PeerIdentity evil{"n0; rm -rf ~", CertificateKind::kNode, Nanoseconds(0), "$(id)"};
  CHECK(issue_command(evil, {"a b", "c0.lab"}) ==
        "'trimtab cert issue node NAME --tenant TENANT --host HOST --host c0.lab --dir CA_DIRECTORY --out NAME'");
}
