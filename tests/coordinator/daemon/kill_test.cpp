// The real program, killed with SIGKILL in the middle of batches.

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "../fake_agent.hpp"
#include "schema/cost.hpp"
#include "schema/cost_database.hpp"

using namespace trimtab;
using namespace trimtab::coordinator;

namespace {

class Process {
 public:
  Process(const std::string& state, const std::string& port_file) {
    pid_ = ::fork();
    if (pid_ == 0) {
      ::execl(TRIMTAB_COORDINATOR, "trimtab-coordinator", "--listen", "127.0.0.1:0", "--state", state.c_str(),
              "--port-file", port_file.c_str(), "--log-level", "off", nullptr);
      ::_exit(127);
    }
  }
  ~Process() { end(SIGKILL); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  int end(int signal) {
    if (pid_ <= 0) return 0;
    ::kill(pid_, signal);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return status;
  }

 private:
  pid_t pid_ = 0;
};

std::uint16_t port_in(net::EventLoop& loop, const std::string& file) {
  int port = 0;
  REQUIRE(run_until(loop, [&] {
    std::ifstream in(file);
    return static_cast<bool>(in >> port);
  }));
  return static_cast<std::uint16_t>(port);
}

std::string key(std::uint64_t batch) {
  CostKey one;
  one.kind = CostKind::kRange;
  one.subject = "batch" + std::to_string(batch);
  return to_json(one);
}

}  // namespace

TEST_CASE("kill -9 in the middle of batches loses nothing that was acknowledged and counts nothing twice") {
  TemporaryDirectory directory;
  const std::string state = directory.path() + "/state";
  const std::string port_file = directory.path() + "/port";
  net::EventLoop loop;
  std::set<std::uint64_t> acknowledged;
  std::uint64_t sent = 0;
  for (int life = 0; life < 4; ++life) {
    std::filesystem::remove(port_file);
    Process coordinator(state, port_file);
    FakeAgent agent(loop, port_in(loop, port_file), "n0", "i0");
    agent.start();
    REQUIRE(run_until(loop, [&] { return agent.welcomes == 1; }));
    // What a former life left unacknowledged comes again, as from an agent's spool.
    for (std::uint64_t batch = 1; batch <= sent; ++batch) {
      if (!acknowledged.contains(batch)) agent.send_batch(batch, key(batch), 7);
    }
    for (int i = 0; i < 60; ++i) {
      ++sent;
      agent.send_batch(sent, key(sent), 7);
    }
    REQUIRE(run_until(loop, [&] { return agent.acknowledged.size() >= 20U + static_cast<std::size_t>(life); }));
    coordinator.end(SIGKILL);
    REQUIRE(run_until(loop, [&] { return agent.closes > 0; }));
    acknowledged.insert(agent.acknowledged.begin(), agent.acknowledged.end());
  }
  auto costs = CostDatabase::open(state + "/costs.db", OpenMode::kReadWrite);
  REQUIRE(costs.ok());
  const auto rows = costs->rows();
  REQUIRE(rows.ok());
  std::set<std::string> stored;
  for (const CostRow& row : *rows) {
    stored.insert(row.cost.key.subject);
    CHECK(row.cost.statistics.count() == 2);
  }
  for (const std::uint64_t batch : acknowledged) CHECK(stored.contains("batch" + std::to_string(batch)));
  CHECK(acknowledged.size() >= 80);
}

TEST_CASE("SIGTERM ends the program cleanly") {
  TemporaryDirectory directory;
  net::EventLoop loop;
  Process coordinator(directory.path() + "/state", directory.path() + "/port");
  (void)port_in(loop, directory.path() + "/port");
  const int status = coordinator.end(SIGTERM);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
