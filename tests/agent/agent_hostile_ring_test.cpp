// The agent's program beside a process that hands it a ring and writes garbage into it all the time: the agent lives,
// answers, and leaves the machine to the others.

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <string>

#include "../resident_memory.hpp"
#include "fake_coordinator.hpp"

using namespace trimtab;
using namespace trimtab::agent;
using Steady = std::chrono::steady_clock;

namespace {

// Sanitizers make the agent several times as slow, and a machine that runs other tests, too.
constexpr double kLongestSilence = SANITIZED ? 10.0 : 3.0;
constexpr double kMostCpu = 0.9;  // of a core; rings get 60 ms of every 100
constexpr auto kDuration = std::chrono::milliseconds(1500);

double seconds(Steady::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

class HostileProcess {
 public:
  HostileProcess(const std::string& socket, const std::string& what) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that is ended leaves nobody behind
      ::dup2(ends[1], STDOUT_FILENO);
      ::execl(HOSTILE_RING, HOSTILE_RING, socket.c_str(), what.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    char said[5] = {};
    REQUIRE(::read(ends[0], said, sizeof(said)) == 5);  // "ready"
    ::close(ends[0]);
  }
  ~HostileProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  HostileProcess(const HostileProcess&) = delete;
  HostileProcess& operator=(const HostileProcess&) = delete;
  [[nodiscard]] bool is_alive() const { return ::waitpid(pid_, nullptr, WNOHANG) == 0; }

 private:
  pid_t pid_ = -1;
};

// User and system time of a process so far, in seconds.
double cpu_seconds(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

double resident_mib(pid_t pid) {
  return static_cast<double>(test::resident_bytes(pid)) / (1 << 20);
}

std::size_t beats(const FakeCoordinator& coordinator) {
  return coordinator.count([](const auto& message) { return message.has_heartbeat(); });
}

// The longest time between two heartbeats, which come ten times a second, during `duration`.
double longest_silence(FakeCoordinator& coordinator, Steady::duration duration) {
  const auto end = Steady::now() + duration;
  auto last = Steady::now();
  double longest = 0;
  while (Steady::now() < end) {
    const std::size_t before = beats(coordinator);
    coordinator.wait("a heartbeat", [&] { return beats(coordinator) > before; });
    longest = std::max(longest, seconds(Steady::now() - last));
    last = Steady::now();
    coordinator.forget();
  }
  return longest;
}

}  // namespace

TEST_CASE("a process takes no more of the agent's memory with its rings than ring_memory_of_process") {
  FakeCoordinator coordinator;
  coordinator.start_agent({{"--ring-memory-of-process", "72MiB"}});
  coordinator.wait_for_hello();
  const double before = resident_mib(coordinator.agent());
  const HostileProcess hostile(coordinator.directory / "agent.sock", "memory");
  const double taken = resident_mib(coordinator.agent()) - before;
  CHECK(taken > 50);                               // the first one was read
  constexpr double kFolds = SANITIZED ? 200 : 24;  // what a ring takes beside its own memory
#ifdef __SANITIZE_THREAD__
  constexpr double kShadows = 5;  // of each byte: itself and four of TSan's
#else
  constexpr double kShadows = 1;
#endif
  CHECK(taken < kShadows * (72 + kFolds));
  CHECK(longest_silence(coordinator, kDuration) < kLongestSilence);
  CHECK(hostile.is_alive());
}

TEST_CASE("a hostile ring can neither crash nor stall the agent") {
  for (const char* what : {"slots", "records", "counters", "names", "resizes", "rings"}) {
    INFO(what);
    FakeCoordinator coordinator;
    coordinator.start_agent();
    coordinator.wait_for_hello();
    const HostileProcess hostile(coordinator.directory / "agent.sock", what);
    const double cpu = cpu_seconds(coordinator.agent());
    const auto begun = Steady::now();
    CHECK(longest_silence(coordinator, kDuration) < kLongestSilence);
    CHECK((cpu_seconds(coordinator.agent()) - cpu) / seconds(Steady::now() - begun) < kMostCpu);
    CHECK(hostile.is_alive());
    // It still does what it is asked to.
    coordinator.describe(1, coordinator.job());
    CHECK(coordinator.wait_for_done(1).ok());
    coordinator.kill_agent(SIGTERM);
    CHECK(coordinator.wait_for_agent() == 0);
  }
}
