#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "program.hpp"
#include "skipping.hpp"

using nlohmann::json;

namespace {

bool daemons_built() {
  const bool built =
      access(TRIMTAB_BIN "/trimtab-coordinator", X_OK) == 0 && access(TRIMTAB_BIN "/trimtab-agent", X_OK) == 0;
  if (!built) trimtab::test::skip("trimtab-coordinator and trimtab-agent are not built beside trimtab");
  return built;
}

// Whatever a test does, its daemons end with it.
class Site {
 public:
  ~Site() { trimtab_program({"down", "--state", state()}); }
  [[nodiscard]] std::string state() const { return scratch_.path("state"); }
  [[nodiscard]] Outcome run(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--state", state()});
    return trimtab_program(arguments);
  }
  [[nodiscard]] const Scratch& scratch() const { return scratch_; }

 private:
  Scratch scratch_;
};

pid_t pid_of(const json& up, std::size_t process) {
  return up["processes"][process]["pid"].get<pid_t>();
}

// `describe` is what the coordinator has an agent run first.
std::string job_file(const Site& site, const std::string& name, const std::string& describe) {
  return site.scratch().file(name + ".toml",
                             "schema = \"trimtab.job/1\"\nname = \"" + name +
                                 "\"\nmode = \"auto\"\nworld_size = 1\nsteps = 5\nshare_devices = true\n[commands]\n"
                                 "describe = " +
                                 describe + "\nbenchmark = [\"/bin/false\"]\ntrain = [\"/bin/false\"]\n");
}

// Somebody else's program on a port.
class Listener {
 public:
  explicit Listener(std::uint16_t port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    // A connection of somebody else's may hold a port of that range for a moment.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    bool bound = false;
    while (!bound && std::chrono::steady_clock::now() < deadline) {
      bound = bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    }
    REQUIRE(bound);
    REQUIRE(listen(socket_, 8) == 0);
  }
  ~Listener() { close(socket_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

 private:
  int socket_;
};

bool says(const Running& program, const std::string& words) {
  for (int i = 0; i < 800; ++i) {
    if (program.said().find(words) != std::string::npos) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
  }
  return false;
}

// A killed daemon is gone a moment later; zombies of an absent init count as gone.
bool gone(pid_t pid) {
  for (int i = 0; i < 200; ++i) {
    const std::string stat = content_of("/proc/" + std::to_string(pid) + "/stat");
    if (stat.empty() || stat.find(") Z ") != std::string::npos) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
  }
  return false;
}

}  // namespace

TEST_CASE("up starts a coordinator and agents, says so twice the same, and down ends them") {
  if (!daemons_built()) return;
  const Site site;
  const Outcome first = site.run({"up", "--agents", "2", "--port", "0", "--json"});
  INFO(first.err);
  REQUIRE(first.exit_code == 0);
  const json up = json::parse(first.out);
  CHECK(up["was_up"] == false);
  CHECK(up["processes"].size() == 3);

  const json again = json::parse(site.run({"up", "--agents", "2", "--port", "0", "--json"}).out);
  CHECK(again["was_up"] == true);
  CHECK(again["processes"] == up["processes"]);

  const json status = json::parse(site.run({"status", "--json"}).out);
  CHECK(status["nodes"].size() == 2);

  const Outcome down = site.run({"down"});
  CHECK(down.exit_code == 0);
  CHECK(down.out.find("stopped coordinator") != std::string::npos);
  CHECK(down.out.find("stopped agent n1") != std::string::npos);
  for (std::size_t i = 0; i < 3; ++i) CHECK(gone(pid_of(up, i)));
  CHECK(site.run({"down"}).out.find("nothing is up") != std::string::npos);
}

TEST_CASE("another user of the machine neither sees nor starts anything through the loopback port") {
  if (!daemons_built()) return;
  const Site site;
  const Outcome up = site.run({"up", "--port", "0", "--json"});
  REQUIRE(up.exit_code == 0);
  const std::string coordinator = "127.0.0.1:" + std::to_string(json::parse(up.out)["port"].get<int>());
  for (const char* name : {"/token", "/agent.token", "/tokens"}) {
    struct stat status {};
    INFO(name);
    REQUIRE(stat((site.state() + name).c_str(), &status) == 0);
    CHECK((status.st_mode & 07777U) == 0600U);
  }
  struct stat status {};
  REQUIRE(stat(site.state().c_str(), &status) == 0);
  CHECK((status.st_mode & 0077U) == 0U);
  // Without the token's file it is as anybody else's.
  const std::string elsewhere = site.scratch().path("elsewhere");
  const Outcome stranger = trimtab_program({"status", "--coordinator", coordinator, "--state", elsewhere});
  CHECK(stranger.exit_code == 2);
  CHECK(stranger.err.find("a token is needed") != std::string::npos);
  CHECK(trimtab_program({"status", "--coordinator", coordinator, "--state", site.state()}).exit_code == 0);
  if (geteuid() != 0) return;  // becoming another user needs root
  REQUIRE(chmod(site.scratch().path("").c_str(), 0755) == 0);
  const std::string as_other = "setpriv --reuid=65534 --regid=65534 --clear-groups ";
  CHECK(std::system((as_other + "cat " + site.state() + "/token >/dev/null 2>&1").c_str()) != 0);
  CHECK(std::system((as_other + "ls " + site.state() + " >/dev/null 2>&1").c_str()) != 0);
  const std::string request =
      "exec 3<>/dev/tcp/127.0.0.1/" + coordinator.substr(coordinator.find(':') + 1) +
      "; printf 'GET /v1/jobs HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3;" +
      " head -1 <&3 | grep -q ' 401 '";
  CHECK(std::system((as_other + "bash -c \"" + request + "\"").c_str()) == 0);
}

TEST_CASE("the daemons of an up keep their logs within a size") {
  if (!daemons_built()) return;
  const Site site;
  namespace fs = std::filesystem;
  const std::vector<std::string> logs{site.state() + "/coordinator.log", site.state() + "/agents/n0.log"};
  fs::create_directories(site.state() + "/agents");
  for (const std::string& log : logs) {
    std::ofstream(log) << "said long ago\n";
    fs::resize_file(log, 17 << 20);
  }
  const Outcome up = site.run({"up", "--port", "0"});
  INFO(up.err);
  REQUIRE(up.exit_code == 0);
  for (const std::string& log : logs) {
    INFO(log);
    CHECK(fs::file_size(log) > 0);
    CHECK(fs::file_size(log) < (64 << 10));
    CHECK(fs::file_size(log + ".1") == 17 << 20);
  }
}

TEST_CASE("a daemon that died is started again as it was, beside those that live") {
  if (!daemons_built()) return;
  const Site site;
  const json up = json::parse(site.run({"up", "--devices", "2", "--port", "0", "--json"}).out);
  for (const std::size_t dead : {0U, 1U}) {
    const json before = json::parse(site.run({"up", "--port", "0", "--json"}).out);
    kill(pid_of(before, dead), SIGKILL);
    REQUIRE(gone(pid_of(before, dead)));
    const Outcome outcome = site.run({"up", "--port", "0", "--json"});
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    const json after = json::parse(outcome.out);
    CHECK(after["restarted"].size() == 1);
    CHECK(after["port"] == up["port"]);
    CHECK(after["devices"] == 2);
    CHECK(pid_of(after, dead) != pid_of(before, dead));
    CHECK(pid_of(after, 1 - dead) == pid_of(before, 1 - dead));
    const json status = json::parse(site.run({"status", "--json"}).out);
    CHECK(status["nodes"][0]["devices"] == 2);
  }
}

TEST_CASE("a daemon that cannot be started again leaves the others as they are") {
  if (!daemons_built()) return;
  const Site site;
  const json up = json::parse(site.run({"up", "--port", "0", "--json"}).out);
  kill(pid_of(up, 0), SIGKILL);
  REQUIRE(gone(pid_of(up, 0)));
  const Listener stranger(up["port"].get<std::uint16_t>());
  const Outcome outcome = site.run({"up", "--port", "0"});
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.err.find("the rest was left as it is") != std::string::npos);
  CHECK_FALSE(content_of("/proc/" + std::to_string(pid_of(up, 1)) + "/stat").empty());
  CHECK(site.run({"down"}).out.find("stopped agent n0") != std::string::npos);
}

TEST_CASE("what an up that was cut off has left over is found and replaced") {
  if (!daemons_built()) return;
  const Site site;
  json up = json::parse(site.run({"up", "--port", "0", "--json"}).out);
  kill(pid_of(up, 0), SIGKILL);
  REQUIRE(gone(pid_of(up, 0)));
  up["devices"] = 0;  // written last
  site.scratch().file("state/up.json", up.dump());
  const Outcome outcome = site.run({"up", "--port", "0"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.out.find("stopped a left-over agent n0") != std::string::npos);
  CHECK(gone(pid_of(up, 1)));
}

TEST_CASE("a pid that belongs to somebody else now is left alone") {
  if (!daemons_built()) return;
  const Site site;
  const json mine = {{"schema", "trimtab.up/1"},
                     {"port", 1},
                     {"devices", 1},
                     {"owner", {{"pid", 0}, {"start_time", 0}}},
                     {"processes", {{{"name", "coordinator"}, {"pid", getpid()}, {"start_time", 1}, {"log", ""}}}}};
  REQUIRE(site.run({"down"}).exit_code == 0);
  REQUIRE(mkdir(site.state().c_str(), 0700) == 0);
  site.scratch().file("state/up.json", mine.dump());
  CHECK(site.run({"down"}).exit_code == 0);  // and this process is still there to say so
}

TEST_CASE("down ends no process that is no daemon, whatever up.json says, and names it") {
  const Site site;
  const pid_t child = fork();
  if (child == 0) {
    execl("/bin/sleep", "sleep", "60", nullptr);
    _exit(127);
  }
  std::string stat;
  while (stat.find("(sleep)") == std::string::npos) stat = content_of("/proc/" + std::to_string(child) + "/stat");
  std::istringstream fields(stat);
  std::string start;
  for (int field = 0; field < 22; ++field) fields >> start;
  const json theirs = {
      {"schema", "trimtab.up/1"},
      {"port", 1},
      {"devices", 1},
      {"owner", {{"pid", 0}, {"start_time", 0}}},
      {"processes", {{{"name", "agent n0"}, {"pid", child}, {"start_time", std::stoull(start)}, {"log", ""}}}}};
  REQUIRE(mkdir(site.state().c_str(), 0700) == 0);
  site.scratch().file("state/up.json", theirs.dump());
  const Outcome down = site.run({"down"});
  CHECK(down.exit_code == 0);
  CHECK(down.out.find("left alone agent n0 (pid " + std::to_string(child) + ")") != std::string::npos);
  CHECK(waitpid(child, nullptr, WNOHANG) == 0);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_CASE("root's commands leave a state directory alone that another user has made") {
  if (geteuid() != 0) return;
  const Site site;
  const std::string precious = site.scratch().file("precious", "precious");
  REQUIRE(mkdir(site.state().c_str(), 0755) == 0);
  for (const char* name : {"keeper", "keeper.log", "up.json", "up.lock", "coordinator.log", "token"}) {
    std::filesystem::create_symlink(precious, site.state() + "/" + name);
  }
  REQUIRE(chown(site.state().c_str(), 65534, 65534) == 0);
  for (const char* verb : {"up", "down", "status"}) {
    const Outcome outcome = site.run({verb});
    INFO(verb);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.err.find(site.state() + " is user 65534's") != std::string::npos);
  }
  const Outcome bare = trimtab_program({"run", "--state", site.state(), "--", "echo", "on"});
  CHECK(bare.exit_code == 0);
  CHECK(bare.out == "on\n");
  CHECK(bare.err.find("the command runs without Trimtab") != std::string::npos);
  CHECK(content_of(precious) == "precious");
}

TEST_CASE("a port that is taken fails with the coordinator's own words and leaves nothing behind") {
  if (!daemons_built()) return;
  const Site first;
  const json up = json::parse(first.run({"up", "--port", "0", "--json"}).out);
  const Site second;
  const Outcome outcome = second.run({"up", "--port", std::to_string(up["port"].get<int>())});
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.err.find("coordinator") != std::string::npos);
  CHECK(second.run({"down"}).out.find("nothing is up") != std::string::npos);
}

TEST_CASE("a state directory that cannot be written is something outside that failed") {
  const Outcome outcome = trimtab_program({"up", "--state", "/proc/nowhere"});
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.err.find("/proc/nowhere") != std::string::npos);
}

TEST_CASE("a job that fails ends tune with its reason and takes the embedded daemons along") {
  if (!daemons_built()) return;
  const Site site;
  const std::string job = job_file(site, "hopeless", "[\"/bin/false\"]");
  const Outcome outcome = site.run({"tune", "--job", job, "--out", site.scratch().path("out")});
  INFO(outcome.err);
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.err.find("the job hopeless failed") != std::string::npos);
  CHECK(site.run({"down"}).out.find("nothing is up") != std::string::npos);
}

TEST_CASE("Ctrl-C stops the job, says so, and takes the embedded daemons along") {
  if (!daemons_built()) return;
  const Site site;
  const std::string job = job_file(site, "slow", "[\"/bin/sleep\", \"300\"]");
  Running tune({"tune", job, "--state", site.state(), "--out", site.scratch().path("out")});
  REQUIRE(says(tune, "phase: describing"));
  tune.interrupt();
  const Outcome outcome = tune.wait();
  INFO(outcome.err);
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.err.find("interrupted; the job slow was stopped") != std::string::npos);
  CHECK(site.run({"down"}).out.find("nothing is up") != std::string::npos);
}

TEST_CASE("a folder for the report that cannot be written is found before anything is started") {
  const Site site;
  const std::string job = job_file(site, "slow", "[\"/bin/sleep\", \"300\"]");
  for (const std::string& out : {std::string("/proc/nowhere"), std::string("/proc"), job + "/out"}) {
    const Outcome outcome = site.run({"tune", job, "--out", out});
    INFO(outcome.err);
    CHECK(outcome.exit_code == 3);
    CHECK(outcome.err.find(out) != std::string::npos);
    CHECK(outcome.err.find("phase:") == std::string::npos);
  }
  CHECK(site.run({"down"}).out.find("nothing is up") != std::string::npos);
}

TEST_CASE("a second Ctrl-C leaves the job alone, says what runs on and how to end it") {
  if (!daemons_built()) return;
  const Site site;
  Running tune({"tune", job_file(site, "slow", "[\"/bin/sleep\", \"300\"]"), "--state", site.state()});
  REQUIRE(says(tune, "phase: describing"));
  tune.interrupt();
  REQUIRE(says(tune, "Ctrl-C again: it is left alone"));
  tune.interrupt();
  const Outcome outcome = tune.wait();
  INFO(outcome.err);
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.err.find("the job slow was left alone and runs on (describing)") != std::string::npos);
  CHECK(outcome.err.find("'trimtab job stop --job slow --state " + site.state() + "' ends it") != std::string::npos);
  const json status = json::parse(site.run({"status", "--json"}).out);
  CHECK(status["jobs"][0]["active"] == true);
  CHECK(site.run({"job", "stop", "--job", "slow"}).exit_code == 0);
  CHECK(site.run({"down"}).out.find("nothing is up") == std::string::npos);
}

TEST_CASE("what was up before a job stays up after it") {
  if (!daemons_built()) return;
  const Site site;
  const json up = json::parse(site.run({"up", "--port", "0", "--json"}).out);
  const Outcome outcome = site.run({"profile", "--job", job_file(site, "hopeless", "[\"/bin/false\"]")});
  INFO(outcome.err);
  CHECK(outcome.exit_code == 3);
  const Outcome trials = site.run({"trials"});
  CHECK(trials.exit_code == 0);
  CHECK(trials.out.find("no trials yet") != std::string::npos);
  const Outcome unknown = site.run({"trials", "--job", "hopeles"});
  CHECK(unknown.exit_code == 2);
  CHECK(unknown.err.find("did you mean 'hopeless'") != std::string::npos);
  CHECK(json::parse(site.run({"up", "--json"}).out)["processes"] == up["processes"]);
}

TEST_CASE("a job that needs more devices than are up is refused with the remedy") {
  if (!daemons_built()) return;
  const Site site;
  REQUIRE(site.run({"up", "--port", "0"}).exit_code == 0);
  std::string text = content_of(job_file(site, "wide", "[\"/bin/false\"]"));
  text.replace(text.find("world_size = 1"), 14, "world_size = 3");
  const Outcome outcome = site.run({"tune", site.scratch().file("wider.toml", text)});
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.err.find("needs 3 devices, but the cluster has 1 device") != std::string::npos);
  CHECK(outcome.err.find("trimtab up --devices 3") != std::string::npos);
}

TEST_CASE("a second tune does not lean on daemons that the first will pull away, but up keeps them") {
  if (!daemons_built()) return;
  const Site site;
  Running first({"tune", job_file(site, "slow", "[\"/bin/sleep\", \"300\"]"), "--state", site.state()});
  REQUIRE(says(first, "phase: describing"));
  const std::string other = job_file(site, "other", "[\"/bin/false\"]");
  const Outcome refused = site.run({"tune", other});
  CHECK(refused.exit_code == 3);
  CHECK(refused.err.find("belong to another trimtab") != std::string::npos);
  CHECK(json::parse(site.run({"up", "--json"}).out)["was_up"] == true);
  first.interrupt();
  CHECK(first.wait().exit_code == 3);
  CHECK(site.run({"status"}).exit_code == 0);  // kept by `up`
}

TEST_CASE("daemons of a tune that was killed are taken over by the next and go with it") {
  if (!daemons_built()) return;
  const Site site;
  {
    Running killed({"tune", job_file(site, "slow", "[\"/bin/sleep\", \"300\"]"), "--state", site.state()});
    REQUIRE(says(killed, "phase: describing"));
  }
  REQUIRE(site.run({"status"}).exit_code == 0);
  const Outcome next = site.run({"tune", job_file(site, "other", "[\"/bin/false\"]")});
  INFO(next.err);
  CHECK(next.err.find("the job other failed") != std::string::npos);
  CHECK(site.run({"down"}).out.find("nothing is up") != std::string::npos);
}

TEST_CASE("a job that a killed tune has left running is followed by the next, and replaced when it has changed") {
  if (!daemons_built()) return;
  const Site site;
  const std::string slow = job_file(site, "slow", "[\"/bin/sleep\", \"300\"]");
  {
    Running killed({"tune", slow, "--state", site.state()});
    REQUIRE(says(killed, "phase: describing"));
  }
  {
    Running again({"tune", slow, "--state", site.state()});
    REQUIRE(says(again, "the job slow is running already"));
  }
  const std::string hopeless = job_file(site, "slow", "[\"/bin/false\"]");
  const Outcome refused = site.run({"tune", hopeless});
  INFO(refused.err);
  CHECK(refused.exit_code == 1);
  CHECK(refused.err.find("it differs in commands.describe") != std::string::npos);
  const std::string command =
      "'trimtab tune --job " + hopeless + " --state " + site.state() + " --replace' does so and starts this one";
  CHECK(refused.err.find(command) != std::string::npos);
  const Outcome replaced = site.run({"tune", hopeless, "--replace"});
  INFO(replaced.err);
  CHECK(replaced.exit_code == 3);
  CHECK(replaced.err.find("stopping the job slow that is running") != std::string::npos);
  CHECK(replaced.err.find("the job slow failed") != std::string::npos);
}
