#include "daemons/users.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "daemons/state_lock.hpp"

using namespace trimtab;
using namespace trimtab::cli;

namespace {

class State {
 public:
  State() { REQUIRE(mkdtemp(path_.data()) != nullptr); }
  ~State() { std::filesystem::remove_all(path_); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/trimtab-test-XXXXXX";
};

}  // namespace

TEST_CASE("a run counts while it lives, and after it was killed as long as its command does") {
  const State state;
  const ProcessIdentity dead{this_process().pid, this_process().start_time + 1};
  REQUIRE(write_user(state.path(), {this_process(), {}, "a", "7.0"}).ok());
  REQUIRE(write_user(state.path(), {dead, this_process(), "b", ""}).ok());
  REQUIRE(write_user(state.path(), {{dead.pid, dead.start_time + 1}, dead, "c", ""}).ok());
  std::ofstream(state.path() + "/users/1-1.json") << "{";
  CHECK(living_users(state.path()).size() == 2);
  remove_user(state.path(), this_process());
  const auto left = living_users(state.path());
  REQUIRE(left.size() == 1);
  CHECK(left[0].job == "b");
  // What the others have left is gone.
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(state.path() + "/users")) ++files;
  CHECK(files == 1);
}

TEST_CASE("where somebody has moved the users away, or put others in their place, nobody is taken for gone") {
  const State state;
  CHECK(may_have_users(state.path()));
  REQUIRE(write_user(state.path(), {this_process(), {}, "a", ""}).ok());
  CHECK(may_have_users(state.path()));
  remove_user(state.path(), this_process());
  CHECK_FALSE(may_have_users(state.path()));
  const std::string users = state.path() + "/users";
  if (::geteuid() == 0) {
    REQUIRE(::chown(users.c_str(), 65534, 65534) == 0);
    CHECK(may_have_users(state.path()));
  }
  std::filesystem::rename(users, state.path() + "/moved");
  CHECK(may_have_users(state.path()));
}

TEST_CASE("what a run writes of itself is read, and half of it is refused") {
  const DaemonUser user{{3, 4}, {5, 6}, "train", "77.0"};
  const auto read = parse_daemon_user(to_json(user), "u");
  REQUIRE(read.ok());
  CHECK(read->run == user.run);
  CHECK(read->command == user.command);
  CHECK(read->job == "train");
  CHECK(read->step == "77.0");
  for (const char* text : {"", "{", "[]", R"({"run":1})"}) {
    INFO(text);
    CHECK_FALSE(parse_daemon_user(text, "u").ok());
  }
}

TEST_CASE("who may wait no longer for the lock of a state directory is told so") {
  const State state;
  const SystemClock clock;
  const auto held = lock_state(state.path(), clock);
  REQUIRE(held.ok());
  const auto refused = lock_state(state.path(), clock, Nanoseconds(1));
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().message.find(state.path()) != std::string::npos);
}
