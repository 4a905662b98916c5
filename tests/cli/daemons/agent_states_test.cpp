#include "daemons/agent_states.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "loopback.hpp"
#include "skipping.hpp"

using namespace trimtab;
using namespace trimtab::cli;
using Catch::Contains;

namespace fs = std::filesystem;

namespace {

using Words = std::vector<std::string>;

std::string with_zeros(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += word + '\0';
  return text;
}

// A root directory with a /proc and a /var/lib of its own.
struct Machine {
  net::TemporaryDirectory directory;
  std::string root = fs::canonical(directory / ".").string();
  std::string up = root + "/home/up";

  [[nodiscard]] std::string make(const std::string& path) const {
    fs::create_directories(root + "/" + path);
    return root + "/" + path;
  }
  // A process in this root directory, or in one below it.
  void run(const std::string& pid, const Words& command, const std::string& in = "",
           const std::string& cwd = "") const {
    const std::string proc = make("proc/" + pid);
    std::ofstream(proc + "/cmdline") << with_zeros(command);
    std::ofstream(proc + "/environ") << with_zeros({"HOME=/home/ana", "SHELL"});
    fs::create_directory_symlink(root + in, proc + "/root");
    fs::create_directory_symlink(root + in + cwd, proc + "/cwd");
  }
  [[nodiscard]] std::vector<AgentState> states() const { return agent_states(up, root); }
  [[nodiscard]] Words directories() const {
    Words found;
    for (const AgentState& state : states()) {
      CHECK(state.unreachable.empty());
      CHECK(state.owner == ::geteuid());
      found.push_back(state.directory);
    }
    return found;
  }
};

}  // namespace

TEST_CASE("the agents of 'up' do not hide those of services, and neither hides Slurm's") {
  const Machine machine;
  CHECK(machine.directories().empty());
  const Words expected{machine.make("home/up/agents/n0"), machine.make("home/up/agents/n1"),
                       machine.make("var/lib/trimtab/agent"), machine.make("var/lib/trimtab/agent-ana"),
                       machine.make("var/lib/trimtab/slurm/ana-n0")};
  (void)machine.make("var/lib/trimtab/coordinator");
  std::ofstream(machine.root + "/var/lib/trimtab/agent-no-directory").close();
  CHECK(machine.directories() == expected);
  const auto of_up = up_agent_states(machine.up);
  REQUIRE(of_up.size() == 2);
  CHECK(of_up[1].directory == expected[1]);
}

TEST_CASE("every agent that runs is found by its command line, and other programs are not") {
  const Machine machine;
  const std::string one = machine.make("tmp/trimtab-7-n0.x");
  const std::string other = machine.make("home/ana/state");
  machine.run("7", {"/usr/bin/trimtab-agent", "--node", "n0", "--state", "/tmp/trimtab-7-n0.x", "--devices", "1"});
  machine.run("12", {"trimtab-agent", "--state=state"}, "", "/home/ana");
  machine.run("13", {"vim", "trimtab-agent", "--state", "/home"});
  machine.run("14", {});  // a thread of the kernel
  CHECK(machine.directories() == Words{one, other});
}

TEST_CASE("a directory that is known in several ways is named once") {
  const Machine machine;
  const std::string service = machine.make("var/lib/trimtab/agent");
  fs::create_directory_symlink(service, machine.root + "/link");
  machine.run("7", {"trimtab-agent", "--state", "/var/lib/trimtab/agent"});
  machine.run("8", {"trimtab-agent", "--state", "/link"});
  machine.run("9", {"trimtab-agent", "--state", "agent"}, "", "/var/lib/trimtab");
  CHECK(machine.directories() == Words{service});
}

TEST_CASE("an agent with a root directory of its own is reached there, not at the same path here") {
  const Machine machine;
  (void)machine.make("tmp/state");
  const std::string inside = machine.make("container/tmp/state");
  machine.run("7", {"trimtab-agent", "--state", "/tmp/state"}, "/container");
  CHECK(machine.directories() == Words{inside});
}

TEST_CASE("an agent whose command line does not say is found as it finds its state itself") {
  const Machine machine;
  const std::string by_file = machine.make("container/data/agent");
  (void)machine.make("container/etc/trimtab");
  std::ofstream(machine.root + "/container/etc/trimtab/agent.toml") << "state = \"/data/agent\"\n";
  machine.run("7", {"trimtab-agent", "--config", "/etc/trimtab/agent.toml"}, "/container");
  machine.run("8", {"trimtab-agent"}, "/container");
  const std::string by_environment = machine.make("srv/agent");
  machine.run("9", {"trimtab-agent"});
  std::ofstream(machine.root + "/proc/9/environ") << with_zeros({"TRIMTAB_STATE=/srv/agent"});
  CHECK(machine.directories() == Words{by_file, by_environment});
}

TEST_CASE("nobody keeps whoever looks for agents waiting with a file that is a pipe") {
  const Machine machine;
  REQUIRE(::mkfifo((machine.root + "/pipe").c_str(), 0600) == 0);
  machine.run("7", {"trimtab-agent", "--config", "/pipe"});
  const auto states = machine.states();
  REQUIRE(states.size() == 1);
  CHECK_THAT(states[0].unreachable, Contains("does not show where"));
}

TEST_CASE("an agent that runs and cannot be reached is named, with the reason") {
  const Machine machine;
  machine.run("7", {"trimtab-agent", "--state", "/tmp/gone"});
  machine.run("8", {"trimtab-agent"});
  fs::remove(machine.root + "/proc/8/environ");
  const auto states = machine.states();
  REQUIRE(states.size() == 2);
  CHECK(states[0].directory == "/tmp/gone");
  CHECK_THAT(states[0].unreachable, Contains("process 7"));
  CHECK_THAT(states[1].unreachable, Contains("process 8") && Contains("does not show where"));
}

TEST_CASE("where an agent's root cannot be looked into its path is taken as one of this") {
  const Machine machine;
  const std::string state = machine.make("srv/state");
  machine.run("7", {"trimtab-agent", "--state", "/srv/state"});
  fs::remove(machine.root + "/proc/7/root");
  CHECK(machine.directories() == Words{state});
}

TEST_CASE("a process that calls itself an agent does not lead to what is another user's", "[needs:root]") {
  if (::geteuid() != 0) return trimtab::test::skip("needs root");
  const Machine machine;
  const std::string foreign = machine.make("etc");
  machine.run("7", {"trimtab-agent", "--state", "/etc"});
  REQUIRE(::chown((machine.root + "/proc/7").c_str(), 65534, 65534) == 0);
  CHECK(machine.states().empty());
  std::ofstream(foreign + "/agent.db").close();
  CHECK(machine.directories() == Words{foreign});
}
