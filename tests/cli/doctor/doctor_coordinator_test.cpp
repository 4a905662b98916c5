#include "doctor/looks.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "../../net/test_authority.hpp"
#include "../page_server.hpp"

using namespace trimtab;
using namespace trimtab::cli;
using Catch::Contains;

namespace {

const std::string kPage = "trimtab_nodes{state=\"connected\"} 3\n";
const std::string kTls = "tls_authority = \"ca.crt\"\ntls_certificate = \"c0.crt\"\ntls_key = \"c0.key\"\n";

coordinator::Settings settings_of(const std::string& text) {
  coordinator::Settings settings;
  const Status read = coordinator::coordinator_settings().set_from_toml(settings, text, "coordinator.toml");
  if (!read.ok()) FAIL(read.error().message);
  return settings;
}

SessionFlags person() {
  SessionFlags flags;
  flags.tls = {"ca.crt", "ana.crt", "ana.key"};
  flags.token_file = "token";
  return flags;
}

std::vector<Check> checks_of(const CoordinatorPlace& place, Nanoseconds* waited = nullptr) {
  ManualClock clock;
  std::vector<FirstLook> looks;
  looks.push_back(look_at_coordinator(place, clock));
  return look_again(std::move(looks), clock, [&](Nanoseconds time) {
    clock.advance(time);
    if (waited != nullptr) *waited += time;
  });
}

CoordinatorPlace configured_at(std::uint16_t port) {
  return coordinator_place(settings_of("listen = \"127.0.0.1:" + std::to_string(port) + "\"\n"), {}, {});
}

}  // namespace

TEST_CASE("a coordinator is asked where coordinator.toml says that it listens") {
  const CoordinatorPlace place = coordinator_place(settings_of("listen = \"127.0.0.1:7450\"\n"), {}, person());
  CHECK(place.address.host == "127.0.0.1");
  CHECK(place.address.port == 7450);
  CHECK(place.address.token_file == "token");
  CHECK(place.address.tls.empty());
  CHECK_FALSE(place.under_tls);
  CHECK(place.configured);
  for (const char* everywhere : {"listen = \"0.0.0.0:7420\"\n", "listen = \"[::]:7420\"\n"}) {
    CHECK(coordinator_place(settings_of(everywhere), {}, {}).address.host == "127.0.0.1");
    const CoordinatorPlace under = coordinator_place(settings_of(everywhere + kTls), {"c0.lab", "10.0.0.5"}, person());
    CHECK(under.address.host == "c0.lab");
    CHECK(under.address.tls.certificate == "ana.crt");
  }
  const auto one = settings_of("listen = \"10.0.0.5:7420\"\n" + kTls);
  CHECK(coordinator_place(one, {"c0.lab", "10.0.0.5"}, {}).address.host == "10.0.0.5");
}

TEST_CASE("a coordinator under TLS is not asked by somebody who has no certificate") {
  const PageServer nobody({});
  CoordinatorPlace place = configured_at(nobody.port);
  place.under_tls = true;
  const auto checks = checks_of(place);
  REQUIRE(checks.size() == 1);
  CHECK(checks[0].health == Health::kWarn);
  CHECK_THAT(checks[0].found, Contains("under TLS"));
  CHECK_THAT(checks[0].remedy, Contains("--tls-authority") && Contains("--tls-certificate") && Contains("--tls-key"));
}

TEST_CASE("the coordinator of this machine is found by its file, unless somebody names another") {
  const net::TemporaryDirectory directory;
  SessionFlags flags;
  flags.state = directory / "up";
  const std::string here = directory / ".";
  const auto usual = find_coordinator(flags, here);
  REQUIRE(usual.has_value());
  CHECK_FALSE(usual->configured);
  std::ofstream(directory / "coordinator.toml") << "listen = \"127.0.0.1:7450\"\n";
  const auto by_file = find_coordinator(flags, here);
  REQUIRE(by_file.has_value());
  CHECK(by_file->address.port == 7450);
  CHECK(by_file->configured);
  flags.coordinator = "127.0.0.1:7451";
  CHECK(find_coordinator(flags, here)->address.port == 7451);
  CHECK(find_coordinator(flags, here)->named);
  flags.coordinator.clear();
  std::ofstream(directory / "coordinator.toml") << "listne = \"127.0.0.1:7450\"\n";
  CHECK_FALSE(find_coordinator(flags, here).has_value());
}

TEST_CASE("the certificate that coordinator.toml names says where a coordinator under TLS is asked") {
  const net::TemporaryDirectory directory;
  const net::TestAuthority authority(directory, "ca");
  const auto files = authority.write(net::CertificateKind::kCoordinator, "c0", SystemClock().wall(),
                                     std::chrono::hours(24), {"c0.lab"});
  std::ofstream(directory / "coordinator.toml")
      << "listen = \"0.0.0.0:7420\"\ntokens = \"/tokens\"\ntls_authority = \"" << files.authority
      << "\"\ntls_certificate = \"" << files.certificate << "\"\ntls_key = \"" << files.key << "\"\n";
  const auto place = find_coordinator({}, directory / ".");
  REQUIRE(place.has_value());
  CHECK(place->address.host == "c0.lab");
  CHECK(place->under_tls);
}

TEST_CASE("a coordinator that does not answer is told where one is configured or named") {
  const PageServer nobody({});
  CoordinatorPlace place = configured_at(nobody.port);
  const auto before_its_start = checks_of(place);
  REQUIRE(before_its_start.size() == 1);
  CHECK(before_its_start[0].health == Health::kWarn);
  CHECK_THAT(before_its_start[0].remedy, Contains("systemctl status trimtab-coordinator"));
  place.configured = false;
  CHECK(checks_of(place).empty());
  place.named = true;
  CHECK(checks_of(place).at(0).health == Health::kFail);
}

TEST_CASE("a coordinator is looked at twice, and what still fails is told from what has failed") {
  const auto failed = [](int times) { return kPage + "trimtab_state_failures_total " + std::to_string(times) + "\n"; };
  Nanoseconds waited{0};
  {
    const PageServer failing({failed(3), failed(4)});
    CHECK(overall(checks_of(configured_at(failing.port), &waited)) == Health::kFail);
  }
  CHECK(waited == std::chrono::seconds(5));
  const PageServer well({failed(4), failed(4)});
  const auto checks = checks_of(configured_at(well.port));
  CHECK(overall(checks) == Health::kOk);
  CHECK(checks[0].found == "3 nodes connected");
}

TEST_CASE("all daemons share one pause, and where none is looked at again there is none") {
  ManualClock clock;
  int pauses = 0;
  const auto pause = [&](Nanoseconds time) {
    ++pauses;
    clock.advance(time);
  };
  CHECK(look_again({FirstLook{}, FirstLook{{{"agent", Health::kWarn, "away", ""}}}}, clock, pause).size() == 1);
  CHECK(pauses == 0);
  const auto again = [](const EarlierPage& earlier) {
    CHECK(earlier.ago == std::chrono::seconds(5));
    return std::vector<Check>{{"daemon", Health::kOk, "", ""}};
  };
  const FirstLook look{{}, {}, clock.monotonic(), again};
  CHECK(look_again({look, look}, clock, pause).size() == 2);
  CHECK(pauses == 1);
}
