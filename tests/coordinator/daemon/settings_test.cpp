#include "coordinator/settings.hpp"

#include <catch2/catch.hpp>
#include <map>

#include "jobs/cost_needs.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

Status from_flag(Settings& settings, const std::string& name, const std::string& text) {
  return coordinator_settings().set_from_flag(settings, name, text);
}

Status from_toml(Settings& settings, const std::string& text, const std::string& source) {
  return coordinator_settings().set_from_toml(settings, text, source);
}

}  // namespace

TEST_CASE("an unknown key names its place and the nearest key") {
  Settings settings;
  const Status applied = from_toml(settings, "listen = \"127.0.0.1:1\"\nlog_levle = \"info\"\n", "c.toml");
  REQUIRE_FALSE(applied.ok());
  CHECK(applied.error().message == "c.toml:2: unknown key \"log_levle\"; did you mean \"log_level\"?");
}

TEST_CASE("a state directory without a name is refused, and not taken for the usual one") {
  Settings settings;
  for (const Status& applied : {from_flag(settings, "state", ""), from_toml(settings, "state = \"\"\n", "c.toml")}) {
    REQUIRE_FALSE(applied.ok());
    CHECK(applied.error().message.find("expected a path") != std::string::npos);
  }
}

TEST_CASE("beyond loopback TLS and tokens are needed, and the reason is said") {
  for (const char* address : {"0.0.0.0:7420", "192.168.1.2:7420", "[::]:7420", "example.org:1"}) {
    Settings settings;
    REQUIRE(from_flag(settings, "listen", address).ok());
    const auto message = [&] { return check_settings(settings).error().message; };
    CHECK(message().find("needs TLS") != std::string::npos);
    CHECK(message().find("'trimtab cert issue coordinator NAME --host HOST --dir CA_DIRECTORY --out NAME'") !=
          std::string::npos);
    REQUIRE(from_toml(settings, "tls_authority = \"a\"\ntls_certificate = \"b\"\n", "c.toml").ok());
    CHECK(message().find("not all three") != std::string::npos);
    REQUIRE(from_flag(settings, "tls_key", "k").ok());
    CHECK(message().find("needs a file of tokens") != std::string::npos);
    CHECK(message().find("'trimtab token add NAME --role operate --tokens FILE'") != std::string::npos);
    REQUIRE(from_flag(settings, "tokens", "t").ok());
    CHECK(check_settings(settings).ok());
  }
  for (const char* address : {"127.0.0.1:0", "127.1.2.3:9", "localhost:7420", "[::1]:7420"}) {
    Settings settings;
    CHECK(from_flag(settings, "listen", address).ok());
    CHECK(check_settings(settings).ok());
  }
  for (const char* address : {"127.0.0.1", "127.0.0.1:", "127.0.0.1:70000", "127.0.0.1:x", ":80"}) {
    Settings settings;
    CHECK_FALSE(from_flag(settings, "listen", address).ok());
  }
}

TEST_CASE("metrics are posted where the settings say, and nowhere else") {
  Settings settings;
  CHECK_FALSE(settings.otlp.endpoint);
  REQUIRE(from_toml(settings, "otlp_endpoint = \"http://c:4318/x\"\notlp_period = \"1min\"\n", "c.toml").ok());
  CHECK(net::to_string(*settings.otlp.endpoint) == "http://c:4318/x");
  CHECK(settings.otlp.period == std::chrono::minutes(1));
  CHECK(check_settings(settings).error().message.find("whole network") != std::string::npos);
  REQUIRE(from_flag(settings, "otlp_token_file", "t").ok());
  CHECK(check_settings(settings).error().message.find("whole network") != std::string::npos);
  REQUIRE(from_flag(settings, "otlp_authority", "a.crt").ok());
  REQUIRE(from_flag(settings, "otlp_endpoint", "https://c").ok());
  CHECK(check_settings(settings).ok());
  const Status refused = from_toml(settings, "otlp_endpoint = \"c:4318\"\n", "c.toml");
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.starts_with("c.toml:1: otlp_endpoint: needs a URL"));
  const Status known = from_flag(settings, "otlp_endpoint", "http://ana:hunter2@c/v1/metrics");
  REQUIRE_FALSE(known.ok());
  CHECK(known.error().message.find("hunter2") == std::string::npos);
  CHECK_FALSE(from_flag(settings, "otlp_period", "500ms").ok());
}

TEST_CASE("the environment wins over the file, and values are checked alike") {
  Settings settings;
  REQUIRE(from_toml(settings, "log_level = \"warn\"\nsearch_time = \"2s\"\nsearch_evaluations = 5\n", "f").ok());
  CHECK(settings.search_time == std::chrono::seconds(2));
  CHECK(settings.search_evaluations == 5);
  std::map<std::string, std::string> variables = {{"TRIMTAB_LOG_LEVEL", "debug"}};
  const auto lookup = [&](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  REQUIRE(coordinator_settings().set_from_environment(settings, lookup).ok());
  CHECK(settings.log_level == "debug");
  variables["TRIMTAB_SEARCH_EVALUATIONS"] = "-1";
  const Status refused = coordinator_settings().set_from_environment(settings, lookup);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find("TRIMTAB_SEARCH_EVALUATIONS") != std::string::npos);
}

TEST_CASE("costs and state are files of the state directory unless a key names another place") {
  Settings settings;
  CHECK((settings.cost_database.empty() && settings.state_database.empty()));
  const std::string text =
      "cost_database = \"postgresql://db.lab/costs?passfile=/etc/trimtab/pgpass\"\nstate_database = "
      "\"/srv/state.db\"\n";
  REQUIRE(from_toml(settings, text, "f").ok());
  CHECK(settings.cost_database == "postgresql://db.lab/costs?passfile=/etc/trimtab/pgpass");
  CHECK(settings.state_database == "/srv/state.db");
}

TEST_CASE("limits of peers have sensible bounds, and a queue holds a frame") {
  Settings settings;
  CHECK(check_settings(settings).ok());
  const char* good =
      "max_frame = \"16MiB\"\nmax_message_rate = 200\nmax_byte_rate = \"64MiB\"\npeer_queue = "
      "\"64MiB\"\nmax_connections = 9\n"
      "node_timeout = \"30s\"\nmax_jobs_of_tenant = 5\nmax_jobs = 50\n"
      "costs_limit = \"1MiB\"\n";
  REQUIRE(from_toml(settings, good, "f").ok());
  CHECK(settings.max_frame == Bytes{16} << 20);
  CHECK(settings.max_message_rate == 200);
  CHECK(settings.max_byte_rate == Bytes{64} << 20);
  CHECK(settings.peer_queue == Bytes{64} << 20);
  CHECK(settings.max_connections == 9);
  CHECK(settings.max_jobs_of_tenant == 5);
  CHECK(settings.max_jobs == 50);
  CHECK(settings.budgets.costs == Bytes{1} << 20);
  CHECK(settings.node_timeout == std::chrono::seconds(30));
  CHECK(check_settings(settings).ok());
  for (const char* bad : {"max_frame = \"1MiB\"", "max_frame = \"1GiB\"", "max_message_rate = 0",
                          "max_byte_rate = \"1MiB\"", "max_connections = 0", "max_connections = 5000000",
                          "max_jobs = 0", "node_timeout = \"1s\"", "peer_queue = \"1TiB\"", "costs_limit = \"1KiB\""}) {
    CHECK_FALSE(from_toml(settings, bad, "f").ok());
  }
  REQUIRE(from_toml(settings, "peer_queue = \"8MiB\"", "f").ok());
  CHECK(check_settings(settings).error().message.find("must hold one frame") != std::string::npos);
}

TEST_CASE("a file that is not TOML is an error with its line") {
  Settings settings;
  const Status applied = from_toml(settings, "\n\nlisten = = 3\n", "c.toml");
  REQUIRE_FALSE(applied.ok());
  CHECK(applied.error().message.rfind("c.toml:3: this is not TOML: ", 0) == 0);
}

TEST_CASE("portions keep the keys of one benchmark item together") {
  std::vector<CostKey> keys;
  for (int i = 0; i < 10; ++i) {
    for (const CostKind kind : {CostKind::kOperatorForward, CostKind::kOperatorBackward}) {
      CostKey key;
      key.kind = kind;
      key.subject = "op";
      key.samples = i;
      keys.push_back(key);
    }
  }
  const auto all = portions(keys, 3);
  REQUIRE(all.size() == 4);
  std::size_t count = 0;
  for (const auto& portion : all) {
    CHECK(portion.size() % 2 == 0);
    count += portion.size();
  }
  CHECK(count == keys.size());
  CHECK(portions({}, 3).empty());
}
