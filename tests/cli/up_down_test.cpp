#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "program.hpp"

using nlohmann::json;

namespace {

bool daemons_built() {
  const bool built =
      access(TRIMTAB_BIN "/trimtab-coordinator", X_OK) == 0 && access(TRIMTAB_BIN "/trimtab-agent", X_OK) == 0;
  if (!built) WARN("skipped: trimtab-coordinator and trimtab-agent are not built beside trimtab");
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
  [[nodiscard]] Scratch& scratch() { return scratch_; }

 private:
  Scratch scratch_;
};

pid_t pid_of(const json& up, std::size_t process) {
  return up["processes"][process]["pid"].get<pid_t>();
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

TEST_CASE("what a crash has left over is found and replaced") {
  if (!daemons_built()) return;
  const Site site;
  const json up = json::parse(site.run({"up", "--port", "0", "--json"}).out);
  kill(pid_of(up, 0), SIGKILL);
  REQUIRE(gone(pid_of(up, 0)));
  const Outcome outcome = site.run({"up", "--port", "0"});
  INFO(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  CHECK(outcome.out.find("stopped a left-over agent n0") != std::string::npos);
  CHECK(gone(pid_of(up, 1)));
}

TEST_CASE("a pid that belongs to somebody else now is left alone") {
  if (!daemons_built()) return;
  Site site;
  const json mine = {{"schema", "trimtab.up/1"},
                     {"port", 1},
                     {"devices", 1},
                     {"processes", {{{"name", "coordinator"}, {"pid", getpid()}, {"start_time", 1}, {"log", ""}}}}};
  REQUIRE(site.run({"down"}).exit_code == 0);
  REQUIRE(mkdir(site.state().c_str(), 0700) == 0);
  site.scratch().file("state/up.json", mine.dump());
  CHECK(site.run({"down"}).exit_code == 0);  // and this process is still there to say so
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
  Site site;
  const std::string job = site.scratch().file("job.toml",
                                              "schema = \"trimtab.job/1\"\nname = \"hopeless\"\nmode = \"auto\"\n"
                                              "world_size = 1\nsteps = 5\n[commands]\ndescribe = [\"/bin/false\"]\n"
                                              "benchmark = [\"/bin/false\"]\ntrain = [\"/bin/false\"]\n");
  const Outcome outcome = site.run({"tune", "--job", job, "--out", site.scratch().path("out")});
  INFO(outcome.err);
  CHECK(outcome.exit_code == 3);
  CHECK(outcome.err.find("the job hopeless failed") != std::string::npos);
  CHECK(site.run({"down"}).out.find("nothing is up") != std::string::npos);
}
