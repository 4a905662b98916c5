#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "../scratch.hpp"
#include "daemons/embedded.hpp"
#include "daemons/state_lock.hpp"
#include "daemons/users.hpp"
#include "files.hpp"
#include "report/report.hpp"
#include "run/node_state.hpp"
#include "schema/state_directory.hpp"

using namespace trimtab;
using namespace trimtab::cli;
namespace fs = std::filesystem;

namespace {

// A state directory in which somebody has put other things than files, where the commands' own belong.
struct Prepared {
  Prepared() {
    ::alarm(30);  // a pipe that is read ends the test
    fs::create_directory(scratch.path("users"));
  }
  ~Prepared() { ::alarm(0); }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  [[nodiscard]] std::string state() const { return scratch.path(""); }
  void put(const std::string& name, const std::string& what) const {
    if (what == "pipe") REQUIRE(::mkfifo(scratch.path(name).c_str(), 0600) == 0);
    if (what == "link") fs::create_symlink(precious, scratch.path(name));
  }

  Scratch scratch;
  std::string precious = scratch.file("precious", R"({"schema":"trimtab.up/1","port":1,"devices":1,)"
                                                  R"("owner":{"pid":0,"start_time":0},"processes":[]})");
  std::string before = read_file(precious).value();
};

}  // namespace

TEST_CASE("a pipe or a link in a state directory holds no command up, tells nothing and is not written through") {
  const Prepared prepared;
  const std::string what = GENERATE("pipe", "link");
  for (const char* name : {"up.json", "keeper", "keeper.log", "up.lock", "users/1-1.json"}) prepared.put(name, what);
  CHECK_FALSE(recorded_state(prepared.state()).has_value());
  CHECK(recorded_keeper(prepared.state()).pid == 0);
  CHECK(living_users(prepared.state()).empty());
  const ProcessIdentity self = this_process();
  const std::string own = "users/" + std::to_string(self.pid) + "-" + std::to_string(self.start_time) + ".json";
  prepared.put(own, what);
  CHECK(write_user(prepared.state(), {self, {}, "job", ""}).ok());
  CHECK(record_keeper(prepared.state(), self).ok());
  CHECK(recorded_keeper(prepared.state()) == self);
  CHECK(living_users(prepared.state()).size() == 1);
  const auto locked = lock_state(prepared.state(), SystemClock());
  REQUIRE_FALSE(locked.ok());
  CHECK(locked.error().message.find("up.lock must be a plain file of yours") != std::string::npos);
  CHECK_FALSE(start_in_background({"/bin/true"}, prepared.scratch.path("keeper.log")).ok());
  CHECK(read_file(prepared.precious).value() == prepared.before);
}

TEST_CASE("where up.json is cut, 'down' does not say that nothing was up") {
  const Scratch scratch;
  const std::string state = scratch.path("state");
  fs::create_directory(state);
  CHECK(bring_down(state, SystemClock()).ok());
  const std::string file = scratch.file("state/up.json", R"({"schema":"trimtab.up/1","port":7420,"dev)");
  const auto down = bring_down(state, SystemClock());
  REQUIRE_FALSE(down.ok());
  CHECK_THAT(down.error().message, Catch::StartsWith(file + " cannot be read") && Catch::Contains("pgrep -af"));
  CHECK(fs::exists(file));
}

TEST_CASE("a report's files take the place of links, and leave what those lead to") {
  const Prepared prepared;
  const std::string fixture = read_file(TRIMTAB_FIXTURES "/report.json").value();
  for (const char* name : {"report.json", "report.html"}) {
    prepared.put(name, "link");
    prepared.put(name + (".new-" + std::to_string(::getpid())), "link");
  }
  REQUIRE(write_report(prepared.state(), fixture, "report.json").ok());
  CHECK(read_file(prepared.precious).value() == prepared.before);
  CHECK(read_file(prepared.scratch.path("report.json")).value() == fixture);
  CHECK_FALSE(fs::is_symlink(prepared.scratch.path("report.html")));
}

TEST_CASE("a file that a person names is written through an own link, and takes the place of another user's") {
  if (::geteuid() != 0) return;
  const Prepared prepared;
  prepared.put("own", "link");
  // Also where an own link leads to it, by its whole path or beside itself.
  fs::create_symlink(prepared.scratch.path("foreign"), prepared.scratch.path("to foreign"));
  fs::create_symlink("to foreign", prepared.scratch.path("to that"));
  for (const char* named : {"foreign", "to foreign", "to that"}) {
    prepared.put("foreign", "link");
    REQUIRE(::lchown(prepared.scratch.path("foreign").c_str(), 65534, 65534) == 0);
    REQUIRE(write_file(prepared.scratch.path(named), named).ok());
    CHECK(read_file(prepared.precious).value() == prepared.before);
    CHECK_FALSE(fs::is_symlink(prepared.scratch.path("foreign")));
    CHECK(read_file(prepared.scratch.path("foreign")).value() == named);
    fs::remove(prepared.scratch.path("foreign"));
  }
  CHECK(fs::is_symlink(prepared.scratch.path("to that")));
  fs::create_symlink("circle", prepared.scratch.path("circle"));
  CHECK_FALSE(write_file(prepared.scratch.path("circle"), "new").ok());
  REQUIRE(write_file(prepared.scratch.path("own"), "new").ok());
  CHECK(read_file(prepared.precious).value() == "new");
}

TEST_CASE("a state directory that another user has made is neither believed nor used") {
  if (::geteuid() != 0) return;
  const Prepared prepared;
  const std::string state = prepared.scratch.path("state");
  fs::create_directory(state);
  fs::copy(prepared.precious, state + "/up.json");
  CHECK(recorded_state(state).has_value());
  REQUIRE(::chown(state.c_str(), 65534, 65534) == 0);
  CHECK_FALSE(recorded_state(state).has_value());
  for (const std::string& path : {state, state + "/hosts/n1"}) {
    const auto locked = lock_state(path, SystemClock());
    REQUIRE_FALSE(locked.ok());
    CHECK(locked.error().message.find(state + " is user 65534's") != std::string::npos);
    CHECK(locked.error().message.find("--state") != std::string::npos);
  }
  CHECK_FALSE(bring_down(state, SystemClock()).ok());
  CHECK_FALSE(fs::exists(state + "/up.lock"));
}

TEST_CASE("in a user's state directory its group can remove nothing, and may write as before") {
  const Scratch scratch;
  const std::string state = scratch.path("state");
  const std::vector<std::string> parts = {state, state + "/agents"};
  for (const std::string& part : parts) {
    fs::create_directory(part);
    REQUIRE(::chmod(part.c_str(), 02775) == 0);
  }
  REQUIRE(lock_state(state, SystemClock()).ok());
  REQUIRE(make_own_directories(state, state + "/agents/n0").ok());
  for (const std::string& part : parts) {
    struct stat seen {};
    REQUIRE(::stat(part.c_str(), &seen) == 0);
    CHECK((seen.st_mode & 07777U) == 03775U);
  }
}

TEST_CASE("a stranger's place for sockets in /tmp is refused before anything is started, with the way out") {
  if (::geteuid() != 0) return;
  const Scratch scratch;
  const auto user = static_cast<uid_t>(2'000'000'000 + ::getpid());
  const std::string place = "/tmp/trimtab-" + std::to_string(user);
  UpOptions options;
  options.state = scratch.path(std::string(120, 's'));
  options.programs = "/no-such-programs";
  for (const std::string& directory : {options.state, place}) fs::create_directory(directory);
  REQUIRE(::chmod(scratch.path("").c_str(), 0755) == 0);
  REQUIRE(::chown(options.state.c_str(), user, 65534) == 0);
  REQUIRE(::chown(place.c_str(), 65534, 65534) == 0);
  const std::string told = options.state + "/told";
  const pid_t other = ::fork();
  if (other == 0) {
    if (::setresuid(user, user, user) != 0) ::_exit(1);
    const auto up = bring_up(options, SystemClock());
    std::ofstream(told) << (up.ok() ? "" : up.error().message) << std::flush;
    ::_exit(0);
  }
  int status = 1;
  CHECK(::waitpid(other, &status, 0) == other);
  CHECK(status == 0);
  fs::remove(place);
  CHECK_THAT(read_file(told).value(),
             Catch::StartsWith("the path of " + options.state + " leaves no room for a socket's name") &&
                 Catch::Contains("shorter path (--state)") && Catch::Contains(place + " is user 65534's"));
  CHECK_FALSE(fs::exists(options.state + "/coordinator"));
}

TEST_CASE("what a member of its group has made in a state directory is neither believed nor used") {
  if (::geteuid() != 0) return;
  const Scratch scratch;
  UpOptions options;
  options.state = scratch.path("state");
  options.programs = "/no-such-programs";
  options.agents = options.devices = 1;
  for (const char* name : {"users", "coordinator", "hosts"}) {
    fs::create_directories(options.state + "/" + name);
    REQUIRE(::chown((options.state + "/" + name).c_str(), 65534, 65534) == 0);
  }
  const std::string others = " is user 65534's, who may have prepared it";
  CHECK_THAT(write_user(options.state, {this_process(), {}, "job", ""}).error().message,
             Catch::Contains("/users" + others));
  CHECK_THAT(bring_up(options, SystemClock()).error().message, Catch::Contains("/coordinator" + others));
  // Above one of ours, too.
  const std::string above = options.state + "/hosts";
  fs::create_directory(above + "/n1");
  CHECK_THAT(make_own_directories(options.state, above + "/n1").error().message, Catch::Contains("/hosts" + others));
  CHECK(make_own_directories(options.state, options.state + "/agents/n0").ok());
}
