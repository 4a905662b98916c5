// What doctor reads of configured services: real files, and certificates of a real authority.

#include "doctor/services.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "../../net/test_authority.hpp"
#include "doctor/looks.hpp"
#include "skipping.hpp"

using namespace trimtab;
using namespace trimtab::cli;
using Catch::Contains;
using net::CertificateKind;

namespace {

constexpr Nanoseconds kYear = std::chrono::hours(24 * 365);

struct Etc {
  net::TemporaryDirectory directory;
  net::TestAuthority authority{directory, "ca"};

  void write(const std::string& name, const std::string& text) const { std::ofstream(directory / name) << text; }
  [[nodiscard]] net::CredentialFiles issue(CertificateKind kind, const std::string& name,
                                           Nanoseconds valid_for = kYear / 2) const {
    return authority.write(kind, name, SystemClock().wall(), valid_for, {name});
  }
  [[nodiscard]] static std::string tls(const net::CredentialFiles& files) {
    return "tls_authority = \"" + files.authority + "\"\ntls_certificate = \"" + files.certificate +
           "\"\ntls_key = \"" + files.key + "\"\n";
  }
  // Of an agent of node n0.
  void write_agent(const net::CredentialFiles& files, const std::string& name = "agent.toml") const {
    write(name, "node = \"n0\"\ncoordinator = \"c0.lab:7420\"\n" + tls(files));
  }
  [[nodiscard]] std::vector<Check> checks() const { return configuration_checks(directory / "."); }
  // The only one that is so called.
  [[nodiscard]] Check named(const std::string& name) const {
    std::vector<Check> found;
    for (const Check& check : checks()) {
      if (check.name == name) found.push_back(check);
    }
    INFO(name);
    REQUIRE(found.size() == 1);
    return found.front();
  }
};

}  // namespace

TEST_CASE("doctor finds certificates of the right kind, name and authority, with their key, in order") {
  const Etc etc;
  etc.write_agent(etc.issue(CertificateKind::kNode, "n0"));
  etc.write("coordinator.toml", Etc::tls(etc.issue(CertificateKind::kCoordinator, "c0")));
  const auto checks = etc.checks();
  CHECK(overall(checks) == Health::kOk);
  std::size_t sets = 0;
  for (const Check& check : checks) sets += check.name == "TLS" ? 1 : 0;
  CHECK(sets == 2);
}

TEST_CASE("doctor sees a key that is another certificate's") {
  const Etc etc;
  net::CredentialFiles files = etc.issue(CertificateKind::kNode, "n0");
  files.key = etc.issue(CertificateKind::kNode, "n1").key;
  etc.write_agent(files);
  const Check found = etc.named("TLS");
  CHECK(found.health == Health::kFail);
  CHECK_THAT(found.found, Contains(files.key + " is not the key to the certificate " + files.certificate));
  CHECK_THAT(found.remedy, Contains("docs/operating.md"));
}

TEST_CASE("doctor sees a certificate that another authority has signed") {
  const Etc etc;
  const net::TestAuthority other(etc.directory, "other");
  net::CredentialFiles files = etc.issue(CertificateKind::kNode, "n0");
  files.authority = other.certificate_file();
  etc.write_agent(files);
  const Check found = etc.named("TLS");
  CHECK(found.health == Health::kFail);
  CHECK_THAT(found.found, Contains("must be signed by the authority in " + files.authority));
}

TEST_CASE("doctor sees a certificate of the wrong kind, and one of another node") {
  const Etc etc;
  etc.write_agent(etc.issue(CertificateKind::kPerson, "n0"));
  const Check person = etc.named("TLS");
  CHECK(person.health == Health::kFail);
  CHECK_THAT(person.found, Contains("of node n0") && Contains("of the kind 'person'"));
  CHECK_THAT(person.remedy, Contains("'trimtab cert issue node n0 --dir CA_DIRECTORY --out n0'"));
  etc.write_agent(etc.issue(CertificateKind::kNode, "n1"));
  CHECK_THAT(etc.named("TLS").found, Contains("of node n0") && Contains("of 'n1'"));
  std::filesystem::remove(etc.directory / "agent.toml");
  etc.write("coordinator.toml", Etc::tls(etc.issue(CertificateKind::kNode, "c0")));
  const Check coordinator = etc.named("TLS");
  CHECK(coordinator.health == Health::kFail);
  CHECK_THAT(coordinator.found, Contains("of coordinator") && Contains("of the kind 'node'"));
}

TEST_CASE("doctor sees a key that is not there, that is no key, and that everybody can read") {
  const Etc etc;
  const net::CredentialFiles files = etc.issue(CertificateKind::kNode, "n0");
  etc.write_agent(files);
  REQUIRE(::chmod(files.key.c_str(), 0644) == 0);
  CHECK_THAT(etc.named("TLS").found, Contains("everybody can read it"));
  std::ofstream(files.key) << "no key\n";
  REQUIRE(::chmod(files.key.c_str(), 0600) == 0);
  CHECK_THAT(etc.named("TLS").found, Contains(files.key));
  CHECK(etc.named("TLS").health == Health::kFail);
  std::filesystem::remove(files.key);
  CHECK_THAT(etc.named("TLS").found, Contains("couldn't read " + files.key));
}

TEST_CASE("doctor of root sees a key that the agent's user may not read", "[needs:root]") {
  if (::geteuid() != 0) return trimtab::test::skip("needs root");
  const Etc etc;
  REQUIRE(::chmod((etc.directory / ".").c_str(), 0755) == 0);
  const net::CredentialFiles files = etc.issue(CertificateKind::kNode, "n0");
  etc.write_agent(files, "agent-nobody.toml");
  const Check closed = etc.named("TLS");
  CHECK(closed.health == Health::kFail);
  CHECK_THAT(closed.found, Contains(files.key + " must be readable by nobody"));
  REQUIRE(::chown(files.key.c_str(), 65534, 65534) == 0);
  CHECK(etc.named("TLS").health == Health::kOk);
}

TEST_CASE("a certificate that has expired is said once") {
  const Etc etc;
  const auto past = SystemClock().wall() - kYear / 2;
  etc.write_agent(etc.authority.write(CertificateKind::kNode, "n0", past, std::chrono::hours(24)));
  std::size_t failures = 0;
  for (const Check& check : etc.checks()) failures += check.health == Health::kFail ? 1 : 0;
  CHECK(failures == 1);
}

TEST_CASE("doctor reads the configuration of every agent of the machine") {
  const Etc etc;
  etc.write("agent.toml", "node = \"n0\"\n");
  etc.write("agent-nobody.toml", "node = \"n0-nobody\"\nmetrics_port = 7431\nspool = 3\n");
  etc.write("agent-root.toml.bak", "that is no configuration\n");
  const auto files = agent_files(etc.directory / ".");
  REQUIRE(files.size() == 2);
  CHECK(files[0].user.empty());
  CHECK(files[1].user == "nobody");
  const auto checks = etc.checks();
  CHECK(overall(checks) == Health::kFail);
  REQUIRE(checks.size() == 2);
  CHECK(checks[0].health == Health::kOk);
  CHECK_THAT(checks[1].found, Contains("agent-nobody.toml:3") && Contains(R"("spool")"));
}

TEST_CASE("doctor sees agents of one machine that have one node or one port, and a file that is of no user") {
  const Etc etc;
  etc.write("agent.toml", "node = \"n0\"\n");
  etc.write("agent-nobody.toml", "node = \"n0\"\n");
  const auto shared = etc.checks();
  REQUIRE(shared.size() == 4);
  CHECK_THAT(shared[2].found, Contains("one node, n0") && Contains("agent-nobody.toml") && Contains("/agent.toml"));
  CHECK_THAT(shared[3].found, Contains("one metrics_port, 7421"));
  CHECK(shared[3].health == Health::kFail);
  etc.write("agent-nobody.toml", "node = \"n0-nobody\"\nmetrics_port = 7431\n");
  CHECK(overall(etc.checks()) == Health::kOk);
  std::filesystem::rename(etc.directory / "agent-nobody.toml", etc.directory / "agent-noperson.toml");
  CHECK(overall(etc.checks()) == Health::kWarn);
  CHECK_THAT(etc.checks().back().found, Contains("no user 'noperson'"));
}

TEST_CASE("every agent of the machine is asked at its own port, or the one of the port that somebody gives") {
  const Etc etc;
  etc.write("agent-ana.toml", "node = \"n0-ana\"\nmetrics_port = 7431\n");
  etc.write("agent-bob.toml", "node = \"n0-bob\"\nmetrics_port = 7441\n");
  const auto all = find_agents(etc.directory / ".", std::nullopt);
  REQUIRE(all.size() == 2);
  CHECK(all[0].user == "ana");
  CHECK(all[0].port == 7431);
  CHECK(all[1].user == "bob");
  CHECK(all[1].port == 7441);
  const auto one = find_agents(etc.directory / ".", std::uint16_t{7441});
  REQUIRE(one.size() == 1);
  CHECK(one[0].user == "bob");
  CHECK(one[0].named);
  const auto elsewhere = find_agents(etc.directory / ".", std::uint16_t{7451});
  REQUIRE(elsewhere.size() == 1);
  CHECK(elsewhere[0].port == 7451);
  const auto usual = find_agents(etc.directory / "none", std::nullopt);
  REQUIRE(usual.size() == 1);
  CHECK(usual[0].port == 7421);
  CHECK_FALSE(usual[0].configured);
}

TEST_CASE("doctor finds files that grant and that others may write, and says what the site allows") {
  const Etc etc;
  etc.write("tokens", "");
  etc.write("site.toml", "modes = [\"observe\"]\nmax_nodes = 4\n");
  etc.write("coordinator.toml", "tokens = \"" + (etc.directory / "tokens") + "\"\nsite_policy = \"" +
                                    (etc.directory / "site.toml") + "\"\n");
  CHECK(etc.named("site policy").health == Health::kOk);
  CHECK_THAT(etc.named("site policy").found, Contains("modes observe; at most 4 nodes"));
  REQUIRE(::chmod((etc.directory / "tokens").c_str(), 0666) == 0);
  CHECK(etc.named("rights").health == Health::kFail);
  CHECK_THAT(etc.named("rights").found, Contains("everybody may write it") && Contains("chmod o-w"));
  REQUIRE(::chmod((etc.directory / "tokens").c_str(), 0644) == 0);
  etc.write("site.toml", "enabled = false\n");
  CHECK(etc.named("site policy").health == Health::kWarn);
  CHECK_THAT(etc.named("site policy").found, Contains("everything is switched off"));
  etc.write("site.toml", "max_node = 1\n");
  CHECK(etc.named("site policy").health == Health::kFail);
  REQUIRE(::chmod((etc.directory / "coordinator.toml").c_str(), 0646) == 0);
  CHECK_THAT(etc.named("rights").found, Contains("coordinator.toml grants rights"));
}
