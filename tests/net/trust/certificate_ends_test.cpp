#include "net/credentials.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "../test_authority.hpp"

using namespace trimtab;
using namespace trimtab::net;
using namespace std::chrono_literals;

namespace {

constexpr Nanoseconds kDay = 24h;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// An authority of a year, and certificates of node n0 by it.
struct World {
  TemporaryDirectory directory;
  TestAuthority authority{directory, "ca"};
  Nanoseconds now = std::chrono::floor<std::chrono::seconds>(SystemClock().wall());

  CredentialFiles issue(Nanoseconds valid_for) const {
    return authority.write(CertificateKind::kNode, "n0", now, valid_for);
  }
  std::shared_ptr<Credentials> load(const CredentialFiles& files) const {
    auto loaded = Credentials::load(files, now);
    INFO((loaded.ok() ? "" : loaded.error().message));
    REQUIRE(loaded.ok());
    return std::move(loaded).value();
  }
  [[nodiscard]] Nanoseconds authority_end() const {
    return describe_certificate(authority.certificate().certificate, "ca")->owner.expires;
  }
};

double in_seconds(Nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

TEST_CASE("gauges tell when a certificate and its authority end, and those of new ones once they are read") {
  const World world;
  const auto tls = world.load(world.issue(10 * kDay));
  auto told = certificate_ends("trimtab_agent", tls.get());
  REQUIRE(told.size() == 2);
  CHECK(told[0].name == "trimtab_agent_certificate_expires_seconds");
  CHECK_FALSE(told[0].is_counter);
  CHECK(told[0].value == in_seconds(world.now + 10 * kDay));
  CHECK(told[1].name == "trimtab_agent_authority_expires_seconds");
  CHECK(told[1].value == in_seconds(world.authority_end()));

  const CredentialFiles files = world.issue(20 * kDay);
  CHECK(certificate_ends("trimtab_agent", tls.get())[0].value == in_seconds(world.now + 10 * kDay));
  REQUIRE(tls->reload(world.now, true).ok());
  CHECK(certificate_ends("trimtab_agent", tls.get())[0].value == in_seconds(world.now + 20 * kDay));

  std::filesystem::remove(files.certificate);
  std::ofstream(files.certificate) << "no certificate";
  REQUIRE_FALSE(tls->reload(world.now, true).ok());
  told = certificate_ends("trimtab_agent", tls.get());
  CHECK(told[0].value == in_seconds(world.now + 20 * kDay));
  CHECK(told[1].value == in_seconds(world.authority_end()));
}

TEST_CASE("without TLS there is nothing to tell") {
  CHECK(certificate_ends("trimtab_agent", nullptr).empty());
}

TEST_CASE("of several authorities that are trusted the one counts that signed the certificate") {
  const World world;
  const auto other = make_authority({CertificateKind::kAuthority, "other", {}, world.now, 30 * kDay});
  REQUIRE(other.ok());
  CredentialFiles files = world.issue(10 * kDay);
  files.authority = world.directory / "both.crt";
  std::ofstream(files.authority) << other->certificate << world.authority.certificate().certificate;
  CHECK(world.load(files)->authority_expires() == world.authority_end());
}

TEST_CASE("a certificate that ends soon is told of once, and so is the next one") {
  const World world;
  const auto tls = world.load(world.issue(40 * kDay));
  EndNotice notice;
  CHECK_FALSE(notice.next(*tls, world.now));
  CHECK_FALSE(notice.next(*tls, world.now + 26 * kDay - 1s));
  const auto line = notice.next(*tls, world.now + 26 * kDay);
  REQUIRE(line);
  CHECK(contains(*line, "the certificate 'n0' ends on 20"));
  CHECK(contains(*line, "issue a new one"));
  CHECK_FALSE(notice.next(*tls, world.now + 39 * kDay));

  (void)world.issue(50 * kDay);
  REQUIRE(tls->reload(world.now, true).ok());
  CHECK_FALSE(notice.next(*tls, world.now + 26 * kDay));
  CHECK(notice.next(*tls, world.now + 45 * kDay));
}

TEST_CASE("where the authority ends soon a new certificate of it would be no remedy") {
  const World world;
  const auto tls = world.load(world.issue(400 * kDay));
  CHECK(tls->own().expires == world.authority_end());
  EndNotice notice;
  CHECK_FALSE(notice.next(*tls, world.authority_end() - 15 * kDay));
  const auto line = notice.next(*tls, world.authority_end() - 13 * kDay);
  REQUIRE(line);
  CHECK(contains(*line, "make a new authority"));
  CHECK_FALSE(contains(*line, "issue a new one"));
}
