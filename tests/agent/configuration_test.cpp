#include "agent/configuration.hpp"

#include <catch2/catch.hpp>
#include <limits>

using namespace trimtab;
using namespace trimtab::agent;

namespace {

Result<Configuration> from_file(const std::string& text) {
  return configure({}, ConfigurationFile{"agent.toml", text}, {}, {});
}

std::string error_of(const Result<Configuration>& result) {
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().kind == ErrorKind::kBadInput);
  return result.error().message;
}

}  // namespace

TEST_CASE("a flag overrides the environment, which overrides the file, which overrides the default") {
  const ConfigurationFile file{"agent.toml", "devices = 2\nnode = \"file\"\nlog_level = \"debug\"\n"};
  const auto result =
      configure({}, file, {{"TRIMTAB_NODE", "environment"}, {"TRIMTAB_LOG_LEVEL", "error"}}, {{"log_level", "warn"}});
  REQUIRE(result.ok());
  CHECK(result->devices == 2);
  CHECK(result->node == "environment");
  CHECK(result->log_level == "warn");
  CHECK(result->metrics_port == 7421);
}

TEST_CASE("the period of the machine's metrics is 0 or sensible") {
  CHECK(from_file("sample_period = \"250ms\"\n")->sample_period == std::chrono::milliseconds(250));
  CHECK(from_file("sample_period = \"0s\"\n")->sample_period.count() == 0);
  CHECK(from_file("")->sample_period == std::chrono::seconds(5));
  CHECK(error_of(from_file("sample_period = \"1ms\"\n")).find("100ms") != std::string::npos);
  CHECK(from_file("silence_limit = \"2min\"\n")->silence_limit == std::chrono::minutes(2));
  CHECK(from_file("")->silence_limit == std::chrono::seconds(15));
  CHECK(error_of(from_file("silence_limit = \"1s\"\n")).find("6s") != std::string::npos);
  CHECK(from_file("nvml = \"/opt/libnvidia-ml.so.1\"\n")->nvml == "/opt/libnvidia-ml.so.1");
}

TEST_CASE("an agent serves everybody's jobs, or those of the tenant that it names") {
  CHECK(from_file("")->tenant.empty());
  CHECK(from_file("tenant = \"ana\"\n")->tenant == "ana");
  CHECK(from_file("tenant = \"*\"\n")->tenant == "*");
  CHECK_THAT(error_of(from_file("tenant = \"a b\"\n")),
             Catch::Contains("agent.toml:1: tenant: expected a tenant's name"));
  CHECK_FALSE(from_file("tenant = \"\"\n").ok());
}

TEST_CASE("metrics are posted where the configuration says, and nowhere else") {
  CHECK_FALSE(from_file("")->otlp.endpoint);
  CHECK(from_file("")->otlp.period == std::chrono::seconds(15));
  const auto chosen = from_file(
      "otlp_endpoint = \"https://c:4318\"\notlp_period = \"1min\"\notlp_authority = \"/a.crt\"\notlp_token_file = "
      "\"/t\"\n");
  REQUIRE(chosen.ok());
  CHECK(net::to_string(*chosen->otlp.endpoint) == "https://c:4318/v1/metrics");
  CHECK(chosen->otlp.period == std::chrono::minutes(1));
  CHECK(chosen->otlp.authority == "/a.crt");
  CHECK(chosen->otlp.token_file == "/t");
  CHECK(check_configuration(*chosen).ok());
  CHECK(error_of(from_file("\notlp_endpoint = \"c:4318\"\n")).starts_with("agent.toml:2: otlp_endpoint: needs a URL"));
  CHECK(error_of(from_file("otlp_period = \"10ms\"\n")).find("expected a time from 1s to 1d") != std::string::npos);
  const auto in_clear = from_file("otlp_endpoint = \"http://c:4318\"\n");
  REQUIRE(in_clear.ok());
  CHECK(check_configuration(*in_clear).error().message.find("whole network") != std::string::npos);
}

TEST_CASE("limits of peers have sensible bounds") {
  const auto chosen =
      from_file("max_frame = \"16MiB\"\nmax_message_rate = 200\nmax_byte_rate = \"64MiB\"\nlink_queue = \"32MiB\"\n");
  REQUIRE(chosen.ok());
  CHECK(chosen->max_frame == Bytes{16} << 20);
  CHECK(chosen->max_message_rate == 200);
  CHECK(chosen->max_byte_rate == Bytes{64} << 20);
  CHECK(chosen->link_queue == Bytes{32} << 20);
  CHECK(error_of(from_file("max_frame = \"1MiB\"\n")).find("from 8MiB") != std::string::npos);
  CHECK(error_of(from_file("max_frame = \"1GiB\"\n")).find("to 256MiB") != std::string::npos);
  CHECK(error_of(from_file("max_byte_rate = \"1MiB\"\n")).find("from 8MiB") != std::string::npos);
  CHECK(error_of(from_file("max_message_rate = 0\n")).find("between 1 and 1000000") != std::string::npos);
}

TEST_CASE("root's agent serves every tenant only when it is told to, and the refusal says what to set") {
  const auto refusal = [](const std::string& text, bool is_root) {
    const auto chosen = from_file(text);
    REQUIRE(chosen.ok());
    const Status allowed = check_user(*chosen, is_root);
    return allowed.ok() ? "" : allowed.error().message;
  };
  CHECK(refusal("", false).empty());
  CHECK(refusal("tenant = \"ana\"\n", true).empty());
  CHECK(refusal("run_as_root = true\n", true).empty());
  for (const char* everybody : {"", "tenant = \"*\"\n", "run_as_root = false\n"}) {
    const std::string said = refusal(everybody, true);
    CHECK(said.find("runs as root") != std::string::npos);
    CHECK(said.find("run_as_root = true") != std::string::npos);
    CHECK(said.find("trimtab-agent@USER") != std::string::npos);
  }
}

TEST_CASE("values are written with their units") {
  const auto result =
      from_file("memory = \"700MiB\"\nspool_limit = 2097152\nkill_grace = \"250ms\"\nstop_ranks_on_exit = true\n");
  REQUIRE(result.ok());
  CHECK(result->memory == Bytes{700} << 20);
  CHECK(result->spool_limit == 2097152);
  CHECK(result->kill_grace == std::chrono::milliseconds(250));
  CHECK(result->stop_ranks_on_exit);
}

TEST_CASE("the agent's budgets of memory and processor time are what it chooses by its ranks, or what is given") {
  CHECK_FALSE(from_file("")->memory_budget);
  CHECK_FALSE(from_file("")->cpu_budget);
  CHECK(from_file("memory_budget = \"2GiB\"\n")->memory_budget == Bytes{2} << 30);
  for (const char* half : {"cpu_budget = \"0.5\"\n", "cpu_budget = 0.5\n"}) CHECK(from_file(half)->cpu_budget == 0.5);
  CHECK(from_file("cpu_budget = 2\n")->cpu_budget == 2);
  CHECK_FALSE(from_file("devices = 1.5\n").ok());
  for (const char* wrong : {"memory_budget = \"1KiB\"\n", "cpu_budget = \"0\"\n", "cpu_budget = \"-1\"\n",
                            "cpu_budget = \"much\"\n", "cpu_budget = \"nan\"\n", "cpu_budget = \"1 core\"\n"}) {
    CHECK_FALSE(from_file(wrong).ok());
  }
}

TEST_CASE("the agent's budget of disk has room for the spool, and one that has none is refused") {
  const auto refusal = [](const std::string& text) {
    const auto chosen = from_file(text);
    REQUIRE(chosen.ok());
    const Status checked = check_configuration(*chosen);
    return checked.ok() ? std::string() : checked.error().message;
  };
  CHECK(allowed_disk({}) == Bytes{2} << 30);
  CHECK(allowed_disk(*from_file("spool_limit = \"1GiB\"\n")) == Bytes{4} << 30);
  CHECK(allowed_disk(*from_file("spool_limit = 4000000000000000000\n")) == std::numeric_limits<Bytes>::max());
  CHECK(allowed_disk(*from_file("disk_budget = \"512MiB\"\n")) == Bytes{512} << 20);
  for (const char* fits : {"", "spool_limit = \"1GiB\"\n", "spool_limit = 4000000000000000000\n",
                           "disk_budget = \"512MiB\"\n", "spool_limit = \"1MiB\"\ndisk_budget = \"2MiB\"\n"}) {
    CHECK(refusal(fits).empty());
  }
  CHECK(refusal("disk_budget = \"511MiB\"\n") ==
        "disk_budget = 511 MiB is less than the spool alone may take, twice spool_limit (256 MiB): raise "
        "disk_budget, or lower spool_limit");
  CHECK_FALSE(refusal("spool_limit = \"1GiB\"\ndisk_budget = \"1.5GiB\"\n").empty());
  CHECK(error_of(from_file("disk_budget = \"1KiB\"\n")).find("at least 1MiB") != std::string::npos);
}

TEST_CASE("an unknown key names its line and the nearest known key") {
  const auto error = error_of(from_file("devices = 1\nmemmory = \"1GiB\"\n"));
  CHECK(error.find("agent.toml:2") != std::string::npos);
  CHECK(error.find("\"memory\"") != std::string::npos);
}

TEST_CASE("an unsuitable value says where it is and what is needed") {
  CHECK(error_of(from_file("devices = 0")).find("agent.toml:1: devices: expected an integer between 1") !=
        std::string::npos);
  CHECK(error_of(from_file("devices = [1]")).find("agent.toml:1") != std::string::npos);
  CHECK(error_of(from_file("devices = ")).find("not TOML") != std::string::npos);
  CHECK(error_of(configure({}, {}, {{"TRIMTAB_COORDINATOR", "nowhere"}}, {})).find("TRIMTAB_COORDINATOR") !=
        std::string::npos);
  CHECK(error_of(configure({}, {}, {}, {{"rank_log_limit", "tiny"}})).find("--rank-log-limit") != std::string::npos);
  CHECK(error_of(configure({}, {}, {}, {{"metrics_port", "70000"}})).find("65535") != std::string::npos);
}

TEST_CASE("the coordinator's address may be an IPv6 one") {
  const auto result = configure({}, {}, {}, {{"coordinator", "[::1]:7000"}});
  REQUIRE(result.ok());
  CHECK(result->coordinator_host == "::1");
  CHECK(result->coordinator_port == 7000);
}

TEST_CASE("paths become absolute") {
  const auto result = configure({}, {}, {}, {{"state", "some/../state"}});
  REQUIRE(result.ok());
  CHECK(result->state.front() == '/');
  CHECK(result->state.ends_with("/state"));
}

TEST_CASE("the default places are those the user may write to") {
  const auto root = default_configuration(true, {}, "host");
  CHECK(root.socket == "/run/trimtab/agent.sock");
  CHECK(root.state == "/var/lib/trimtab/agent");
  const auto user = default_configuration(false, {{"HOME", "/home/u"}, {"XDG_RUNTIME_DIR", "/run/user/7"}}, "host");
  CHECK(user.socket == "/run/user/7/trimtab/agent.sock");
  CHECK(user.state == "/home/u/.local/state/trimtab/agent");
  CHECK(user.node == "host");
  const auto named = default_configuration(false, {{"XDG_STATE_HOME", "/s"}, {"HOME", "/home/u"}}, "host");
  CHECK(named.state == "/s/trimtab/agent");
  CHECK(named.socket == "/s/trimtab/agent.sock");
}

TEST_CASE("where the environment names no place for the state one must be named, and the socket stands there") {
  for (const char* home : {"", "/home/u"}) {
    const auto chosen = configure(default_configuration(false, {{"HOME", home}}, "host"), {}, {}, {});
    REQUIRE(chosen.ok());
    CHECK(check_state(*chosen).ok() == (*home != '\0'));
  }
  const auto nowhere =
      configure(default_configuration(false, {{"XDG_RUNTIME_DIR", "/run/user/7"}}, "host"), {}, {}, {});
  REQUIRE(nowhere.ok());
  CHECK(nowhere->state.empty());
  CHECK(check_state(*nowhere).error().kind == ErrorKind::kBadInput);
  CHECK(check_state(*nowhere).error().message.find("--state") != std::string::npos);
  const auto named = configure(default_configuration(false, {}, "host"), {}, {}, {{"state", "/srv/agent"}});
  REQUIRE(named.ok());
  CHECK(check_state(*named).ok());
  CHECK(named->socket == "/srv/agent/agent.sock");
}

TEST_CASE("a coordinator on another machine needs TLS, and TLS three files") {
  const auto message = [](const std::string& text) {
    const auto configuration = from_file(text);
    REQUIRE(configuration.ok());
    const Status checked = check_configuration(*configuration);
    return checked.ok() ? std::string() : checked.error().message;
  };
  for (const char* here : {"127.0.0.1:1", "localhost:1", "[::1]:1"}) {
    CHECK(message("coordinator = \"" + std::string(here) + "\"\n").empty());
  }
  CHECK(message("coordinator = \"10.0.0.1:7420\"\n").find("needs TLS") != std::string::npos);
  CHECK(message("coordinator = \"127.example.org:7420\"\n").find("needs TLS") != std::string::npos);
  CHECK(message("tls_key = \"k\"\n").find("not all three") != std::string::npos);
  const std::string tls = "tls_authority = \"a\"\ntls_certificate = \"c\"\ntls_key = \"k\"\n";
  CHECK(message("coordinator = \"c0.lab:7420\"\n" + tls).empty());
  CHECK(message("metrics_address = \"0.0.0.0\"\n").find("needs TLS") != std::string::npos);
  CHECK(message("metrics_address = \"0.0.0.0\"\n" + tls).empty());
  CHECK(message("metrics_address = \"0.0.0.0\"\nmetrics_port = 0\n").empty());
  const std::string node = "node = \"n7\"\n";
  CHECK(message(node + "coordinator = \"10.0.0.1:7420\"\n")
            .find("'trimtab cert issue node n7 --dir CA_DIRECTORY --out n7'") != std::string::npos);
  CHECK(message(node + "tenant = \"ana\"\nmetrics_address = \"0.0.0.0\"\n")
            .find("'trimtab cert issue node n7 --tenant ana --host HOST --dir CA_DIRECTORY --out n7'") !=
        std::string::npos);
}
