// The agent's program on a GPU node, whose NVML says what a script tells it.

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "fake_coordinator.hpp"
#include "net/certificates.hpp"
#include "schema/fingerprint.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Free a moment ago.
std::uint16_t some_port() {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  REQUIRE(::bind(descriptor, reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  ::close(descriptor);
  return ntohs(address.sin_port);
}

std::string answer_at(std::uint16_t port, const std::string& request) {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  std::string text;
  if (::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    REQUIRE(::send(descriptor, request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size()));
    char part[4096];
    for (ssize_t got = 0; (got = ::recv(descriptor, part, sizeof part, 0)) > 0;) text.append(part, got);
  }
  ::close(descriptor);
  return text;
}

std::string metrics_at(std::uint16_t port) {
  return answer_at(port, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
}

// Files of node n0's certificate by one authority, made anew as often as one likes.
struct NodeCertificate {
  explicit NodeCertificate(const TemporaryDirectory& directory)
      : authority(directory / "ca.crt"), certificate(directory / "n0.crt"), key(directory / "n0.key") {
    const auto made = net::make_authority({net::CertificateKind::kAuthority, "ca", {}, now, kDay * 100});
    REQUIRE(made.ok());
    signer = *made;
    write(authority, signer.certificate);
  }

  void issue(int days) const {
    const auto made = net::issue_certificate(signer, {net::CertificateKind::kNode, "n0", {}, now, kDay * days});
    REQUIRE(made.ok());
    write(certificate, made->certificate);
    write(key, made->key);
    std::filesystem::permissions(key, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  }
  static void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
  [[nodiscard]] std::string end(int days) const {
    return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(now + kDay * days).count());
  }

  static constexpr Nanoseconds kDay = std::chrono::hours(24);
  Nanoseconds now = std::chrono::floor<std::chrono::seconds>(SystemClock().wall());
  std::string authority;
  std::string certificate;
  std::string key;
  net::Certificate signer;
};

class Script {
 public:
  explicit Script(std::string path) : path_(std::move(path)) {
    write("700000");
    REQUIRE(::setenv("TRIMTAB_FAKE_NVML", path_.c_str(), 1) == 0);
  }
  ~Script() { ::unsetenv("TRIMTAB_FAKE_NVML"); }
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;

  void write(const std::string& power_limit, int clock_mhz = 1755) const {
    std::ofstream(path_ + ".new") << "system nvmlSystemGetDriverVersion 550.54.15\n"
                                     "system nvmlDeviceGetCount_v2 1\n"
                                     "0 nvmlDeviceGetName NVIDIA H100 80GB HBM3\n"
                                     "0 nvmlDeviceGetTemperature/0 54\n"
                                     "0 nvmlDeviceGetClockInfo/1 "
                                  << clock_mhz
                                  << "\n"
                                     "0 nvmlDeviceGetEnforcedPowerLimit "
                                  << power_limit << "\n";
    std::filesystem::rename(path_ + ".new", path_);
  }

 private:
  std::string path_;
};

Fingerprint fingerprint_of(const std::string& json) {
  auto parsed = parse_fingerprint(json, "agent");
  if (!parsed.ok()) FAIL(parsed.error().message);
  return std::move(parsed).value();
}

}  // namespace

TEST_CASE("an agent tells its GPUs, and costs measured after a change of them have another fingerprint") {
  FakeCoordinator coordinator;
  const Script script(coordinator.directory / "nvml");
  coordinator.start_agent({{"--nvml", FAKE_NVML}, {"--sample-period", "100ms"}});
  coordinator.wait_for_hello();
  const Fingerprint first = fingerprint_of(coordinator.last_hello().fingerprint_json());
  CHECK(first.device.at("kind") == "gpu");
  CHECK(first.device.at("power_limit_w") == "700");
  CHECK(first.software.at("driver") == "550.54.15");
  script.write("500000");
  coordinator.wait_for_hello(2);
  coordinator.benchmark(1, coordinator.job(), {0, 1});
  CHECK(coordinator.wait_for_done(1).ok());
  const auto& batch = coordinator.wait_for("costs", [](const auto& message) { return message.has_cost_batch(); });
  const Fingerprint now = fingerprint_of(batch.cost_batch().fingerprint_json());
  CHECK(now.environment.at("OPENBLAS_NUM_THREADS") == "1");
  CHECK(now.device.at("power_limit_w") == "500");
}

TEST_CASE("what a benchmark measures while the GPU is held below its usual clock is disturbed") {
  FakeCoordinator coordinator;
  const Script script(coordinator.directory / "nvml");
  const std::uint16_t port = some_port();
  coordinator.start_agent(
      {{"--nvml", FAKE_NVML}, {"--sample-period", "100ms"}, {"--metrics-port", std::to_string(port)}});
  coordinator.wait_for_hello();
  Job job = coordinator.job();
  const std::string cost = R"({"kind":"operator_forward","subject":"a","dtype":"float32","samples":1})";
  job.benchmark = {"echo", R"({"item":0,"cost":)" + cost + R"(,"values":[1000],"clock":"device"})"};
  std::uint64_t command = 0;
  // Whether what the next benchmark measures is disturbed, once NVML's sample says this clock.
  const auto disturbed = [&](int mhz) {
    script.write("700000", mhz);
    const std::string sample = R"(trimtab_device_clock_hertz{device="0",clock="sm"} )" + std::to_string(mhz) + "000000";
    coordinator.wait("the clock's sample", [&] { return metrics_at(port).find(sample) != std::string::npos; });
    coordinator.forget();
    coordinator.benchmark(++command, job, {0});
    (void)coordinator.wait_for_done(command);
    const auto& batch = coordinator.wait_for("costs", [](const auto& message) { return message.has_cost_batch(); });
    return batch.cost_batch().entries(0).condition().find("disturbed") != std::string::npos;
  };
  for (int i = 0; i < 3; ++i) CHECK_FALSE(disturbed(1755));
  CHECK_FALSE(disturbed(1650));
  CHECK(disturbed(1200));
  CHECK_FALSE(disturbed(1755));
}

TEST_CASE("an agent whose GPUs change under running ranks says hello anew, and the ranks train on") {
  FakeCoordinator coordinator;
  const Script script(coordinator.directory / "nvml");
  coordinator.start_agent({{"--nvml", FAKE_NVML}, {"--sample-period", "100ms"}});
  coordinator.wait_for_hello();
  coordinator.launch(1, coordinator.job(), {0}, 1);
  CHECK(coordinator.wait_for_done(1).ok());
  const auto& first = coordinator.wait_for("a connection", rank_event(wire::RankEvent::kConnected, 0)).rank_event();
  const auto pid = static_cast<pid_t>(first.connected().pid());
  script.write("500000");
  coordinator.wait_for_hello(2);
  const wire::Hello& hello = coordinator.last_hello();
  CHECK(fingerprint_of(hello.fingerprint_json()).device.at("power_limit_w") == "500");
  REQUIRE(hello.running_size() == 1);
  CHECK(hello.running(0).pid() == pid);
  CHECK(FakeCoordinator::is_alive(pid));
}

TEST_CASE("an agent shows its machine's metrics") {
  FakeCoordinator coordinator;
  const Script script(coordinator.directory / "nvml");
  const std::uint16_t port = some_port();
  coordinator.start_agent(
      {{"--nvml", FAKE_NVML}, {"--sample-period", "100ms"}, {"--metrics-port", std::to_string(port)}});
  coordinator.wait_for_hello();
  std::string text;
  // Each source is read by a thread of its own: any of them may come last.
  coordinator.wait("the GPU's metrics, the fingerprint and two samples of the processors", [&] {
    text = metrics_at(port);
    return text.find("trimtab_host_source_up{source=\"gpu\"} 1\n") != std::string::npos &&
           text.find("trimtab_host_source_up{source=\"fingerprint\"} 1\n") != std::string::npos &&
           text.find("# TYPE trimtab_host_cpu_seconds_total counter\n") != std::string::npos;
  });
  CHECK(text.find("trimtab_device_temperature_celsius{device=\"0\"} 54\n") != std::string::npos);
  CHECK(text.find("trimtab_device_power_limit_watts{device=\"0\"} 700\n") != std::string::npos);
  CHECK(text.find("_expires_seconds") == std::string::npos);  // without TLS
}

TEST_CASE("an agent's metrics tell when its certificate ends, and of a new one without a restart") {
  FakeCoordinator coordinator;
  const NodeCertificate files(coordinator.directory);
  files.issue(10);
  const std::uint16_t port = some_port();
  // That the coordinator does not speak TLS is all the same here.
  coordinator.start_agent({{"--tls-authority", files.authority},
                           {"--tls-certificate", files.certificate},
                           {"--tls-key", files.key},
                           {"--metrics-port", std::to_string(port)}});
  const auto wait_for_line = [&](const std::string& line) {
    std::string text;
    coordinator.wait(line, [&] {
      text = metrics_at(port);
      return text.find("\n" + line + "\n") != std::string::npos;
    });
  };
  wait_for_line("trimtab_agent_certificate_expires_seconds " + files.end(10));
  wait_for_line("trimtab_agent_authority_expires_seconds " + files.end(100));
  files.issue(50);
  coordinator.kill_agent(SIGHUP);
  wait_for_line("trimtab_agent_certificate_expires_seconds " + files.end(50));
}

TEST_CASE("the port of an agent's metrics takes no WebSocket and no body") {
  FakeCoordinator coordinator;
  const std::uint16_t port = some_port();
  coordinator.start_agent({{"--metrics-port", std::to_string(port)}});
  coordinator.wait_for_hello();
  CHECK(answer_at(port,
                  "GET /v1/agent HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")
            .starts_with("HTTP/1.1 404"));
  CHECK(answer_at(port, "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx")
            .starts_with("HTTP/1.1 413"));
  CHECK(metrics_at(port).find("trimtab_agent_ranks_running 0\n") != std::string::npos);
}

TEST_CASE("whoever asks for an agent's metrics without end is turned away, and can ask again in a while") {
  FakeCoordinator coordinator;
  const std::uint16_t port = some_port();
  coordinator.start_agent({{"--metrics-port", std::to_string(port)}});
  coordinator.wait_for_hello();
  std::string flood;
  for (int i = 0; i < 500; ++i) flood += "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const std::string answers = answer_at(port, flood);
  std::size_t pages = 0;
  for (auto at = answers.find("HTTP/1.1 200"); at != std::string::npos; at = answers.find("HTTP/1.1 200", at + 1)) {
    ++pages;
  }
  CHECK(pages >= 100);
  CHECK(pages < 300);
  CHECK(answers.find("HTTP/1.1 429") != std::string::npos);
  CHECK(answers.find("Retry-After: 1") != std::string::npos);
  const std::string caller = "user " + std::to_string(::geteuid()) + " of this machine";
  CHECK(answers.find(caller + " asks for metrics more often than 20 times a second") != std::string::npos);
  std::string text;
  coordinator.wait("a page that counts the refusal", [&] {
    text = metrics_at(port);
    return text.find("\ntrimtab_agent_metrics_requests_refused_total ") != std::string::npos &&
           text.find("\ntrimtab_agent_metrics_requests_refused_total 0\n") == std::string::npos;
  });
}

TEST_CASE("metrics on loopback tell of ranks without their job's name, unless the agent is told to name it") {
  for (const bool named : {false, true}) {
    FakeCoordinator coordinator;
    const std::uint16_t port = some_port();
    std::map<std::string, std::string> options{{"--metrics-port", std::to_string(port)}};
    if (named) options["--metrics-jobs"] = "named";
    coordinator.start_agent(options);
    coordinator.wait_for_hello();
    const Job job = coordinator.job();
    coordinator.launch(1, job, {0}, 1);
    CHECK(coordinator.wait_for_done(1).ok());
    std::string text;
    coordinator.wait("the rank's metrics", [&] {
      text = metrics_at(port);
      return text.find("trimtab_rank_threads{") != std::string::npos;
    });
    CHECK((text.find("job=\"" + job.name + "\"") != std::string::npos) == named);
    CHECK((text.find("job=\"job-") != std::string::npos) == !named);
  }
}
