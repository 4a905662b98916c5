#include "schema/state_directory.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

using namespace trimtab;

TEST_CASE("a state directory in which everybody may write is refused unless it is root's") {
  char name[] = "/tmp/trimtab-state-XXXXXX";
  const std::string directory = ::mkdtemp(name);
  const bool is_root = ::geteuid() == 0;
  const auto refusal = [&](mode_t mode) {
    REQUIRE(::chmod(directory.c_str(), mode) == 0);
    const Status checked = check_state_directory(directory);
    return checked.ok() ? std::string() : checked.error().message;
  };
  if (is_root) {
    CHECK(refusal(0777).empty());   // a cluster's volume
    CHECK(refusal(01777).empty());  // a tmpfs
    REQUIRE(::chown(directory.c_str(), 65534, 65534) == 0);
    REQUIRE(::seteuid(65534) == 0);
  }
  CHECK(refusal(0700).empty());
  CHECK(refusal(02775).empty());  // its group's
  for (const mode_t mode : {mode_t{0777}, mode_t{01777}, mode_t{0702}}) {
    const std::string said = refusal(mode);
    CHECK(said.find(directory) != std::string::npos);
    CHECK(said.find("--state") != std::string::npos);
  }
  // Its own, which nobody else can have put there.
  REQUIRE(::chmod(directory.c_str(), 0700) == 0);
  const std::string inner = directory + "/inner";
  REQUIRE(::mkdir(inner.c_str(), 0700) == 0);
  REQUIRE(::chmod(inner.c_str(), 01777) == 0);
  CHECK(check_state_directory(inner).ok());
  REQUIRE(::chmod(directory.c_str(), 0777) == 0);
  CHECK_FALSE(check_state_directory(inner).ok());
  REQUIRE(::rmdir(inner.c_str()) == 0);
  if (is_root) REQUIRE(::seteuid(0) == 0);
  REQUIRE(::rmdir(directory.c_str()) == 0);
  CHECK_FALSE(check_state_directory(directory).ok());
}

TEST_CASE("root's daemon believes no state directory of another user's, and no link of one's") {
  if (::geteuid() != 0) return;
  char name[] = "/tmp/trimtab-state-XXXXXX";
  const std::string directory = ::mkdtemp(name);
  REQUIRE(::mkdir((directory + "/state").c_str(), 0700) == 0);
  const std::string link = directory + "/link";
  REQUIRE(::symlink("state", link.c_str()) == 0);
  for (const std::string& path : {link, link + "/", link + "/later"}) CHECK(check_state_path(path).ok());
  CHECK(check_state_directory(link).ok());
  REQUIRE(::lchown(link.c_str(), 65534, 65534) == 0);
  for (const std::string& path : {link, link + "/", link + "/later"}) {
    const Status checked = check_state_path(path);
    REQUIRE_FALSE(checked.ok());
    CHECK(checked.error().kind == ErrorKind::kBadInput);
    CHECK(checked.error().message.find(link + " is a link of user 65534") != std::string::npos);
  }
  CHECK(check_state_path(directory + "/state/later").ok());
  REQUIRE(::chown((directory + "/state").c_str(), 65534, 65534) == 0);
  const Status foreign = check_state_directory(directory + "/state");
  REQUIRE_FALSE(foreign.ok());
  CHECK(foreign.error().message.find("is user 65534's") != std::string::npos);
  REQUIRE(::chmod(directory.c_str(), 0755) == 0);
  REQUIRE(::seteuid(65534) == 0);
  CHECK(check_state_path(link).ok());
  CHECK(check_state_directory(link).ok());
  REQUIRE(::seteuid(0) == 0);
  REQUIRE(::unlink(link.c_str()) == 0);
  REQUIRE(::rmdir((directory + "/state").c_str()) == 0);
  REQUIRE(::rmdir(directory.c_str()) == 0);
}

TEST_CASE("in a user's own namespace a daemon follows the machine's root's links, as the user's commands do") {
  if (::geteuid() != 0) return;
  char name[] = "/tmp/trimtab-state-XXXXXX";
  const std::string directory = ::mkdtemp(name);
  const std::string link = directory + "/link";
  REQUIRE(::chmod(directory.c_str(), 0755) == 0);
  REQUIRE(::symlink("state", link.c_str()) == 0);
  const pid_t user = ::fork();
  if (user == 0) {
    constexpr uid_t kUser = 65533;
    const bool has_own = ::setresuid(kUser, kUser, kUser) == 0 && ::prctl(PR_SET_DUMPABLE, 1) == 0 &&
                         ::unshare(CLONE_NEWUSER) == 0 &&
                         static_cast<bool>(std::ofstream("/proc/self/uid_map") << "0 65533 1" << std::flush);
    if (!has_own || ::geteuid() != 0) ::_exit(2);  // not everywhere may a user make one
    ::_exit(check_own_state(link).ok() && check_state_path(link).ok() ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(user, &status, 0) == user);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) != 1);
  REQUIRE(::unlink(link.c_str()) == 0);
  REQUIRE(::rmdir(directory.c_str()) == 0);
}

TEST_CASE("a person's state directory is believed where nobody else could prepare it or put another in its place") {
  char name[] = "/tmp/trimtab-state-XXXXXX";
  const std::string top = ::mkdtemp(name);
  const std::string state = top + "/state";
  const std::string link = top + "/link";
  const bool is_root = ::geteuid() == 0;
  const auto refusal = [](const std::string& path) {
    const Status checked = check_own_state(path);
    return checked.ok() ? std::string() : checked.error().message;
  };
  CHECK(refusal(state + "/later").empty());
  REQUIRE(::mkdir(state.c_str(), 0700) == 0);
  REQUIRE(::symlink("state", link.c_str()) == 0);
  for (const std::string& path : {state, state + "/", state + "/later", link, link + "/later"}) {
    CHECK(refusal(path).empty());
  }
  if (is_root) {
    REQUIRE(::lchown(link.c_str(), 65534, 65534) == 0);
    for (const std::string& path : {link, link + "/later"}) {
      CHECK(refusal(path).find(link + " is a link of user 65534") != std::string::npos);
    }
    REQUIRE(::chown(state.c_str(), 65534, 65534) == 0);
    for (const std::string& path : {state, state + "/later"}) {
      CHECK(refusal(path).find(state + " is user 65534's") != std::string::npos);
    }
    REQUIRE(::chmod(top.c_str(), 0755) == 0);
    REQUIRE(::seteuid(65533) == 0);  // of another's folder another user
    CHECK(refusal(state).find(state + " is user 65534's") != std::string::npos);
    REQUIRE(::seteuid(0) == 0);
    REQUIRE(::chown(top.c_str(), 65534, 65534) == 0);
    REQUIRE(::seteuid(65534) == 0);
  }
  CHECK(refusal(state).empty());
  REQUIRE(::chmod(top.c_str(), 01777) == 0);  // as /tmp
  CHECK(refusal(state).empty());
  REQUIRE(::chmod(top.c_str(), 0777) == 0);
  for (const std::string& path : {state, state + "/later"}) {
    const std::string said = refusal(path);
    CHECK(said.find(top + " is one in which everybody may write and put another in its place") != std::string::npos);
    CHECK(said.find("--state") != std::string::npos);
  }
  REQUIRE(::chmod(state.c_str(), 0777) == 0);
  REQUIRE(::chmod(top.c_str(), 0700) == 0);
  CHECK(refusal(state).empty());  // a share with one mode for all
  REQUIRE(::chmod(top.c_str(), 01777) == 0);
  CHECK(refusal(state).find(state + " is one in which everybody may write") != std::string::npos);
  if (is_root) {
    REQUIRE(::seteuid(0) == 0);
    REQUIRE(::chown(top.c_str(), 0, 0) == 0);
    REQUIRE(::chmod(top.c_str(), 0777) == 0);
    REQUIRE(::seteuid(65534) == 0);
    REQUIRE(::chmod(state.c_str(), 0700) == 0);
    CHECK(refusal(state).empty());  // in a volume
    CHECK(refusal(top).find(top + " is one in which everybody may write") != std::string::npos);
    REQUIRE(::seteuid(0) == 0);
  }
  REQUIRE(::unlink(link.c_str()) == 0);
  REQUIRE(::rmdir(state.c_str()) == 0);
  REQUIRE(::rmdir(top.c_str()) == 0);
}

TEST_CASE("a socket's folder is one where nobody else can put another socket in its place") {
  char name[] = "/tmp/trimtab-state-XXXXXX";
  const std::string directory = ::mkdtemp(name);
  CHECK(check_socket_directory(directory).ok());
  CHECK_FALSE(check_socket_directory(directory + "/none").ok());
  const bool is_root = ::geteuid() == 0;
  if (is_root) {
    REQUIRE(::chmod(directory.c_str(), 0777) == 0);
    CHECK(check_socket_directory(directory).ok());  // a volume
    REQUIRE(::chown(directory.c_str(), 65534, 65534) == 0);
    REQUIRE(::chmod(directory.c_str(), 01777) == 0);
    CHECK(check_socket_directory(directory).error().message.find("is user 65534's") != std::string::npos);
    REQUIRE(::seteuid(65534) == 0);
  }
  for (const mode_t mode : {mode_t{0700}, mode_t{02775}, mode_t{01777}}) {
    REQUIRE(::chmod(directory.c_str(), mode) == 0);
    CHECK(check_socket_directory(directory).ok());
  }
  REQUIRE(::chmod(directory.c_str(), 0777) == 0);
  const std::string said = check_socket_directory(directory).error().message;
  CHECK(said.find("everybody may write in the directory of the socket " + directory) == 0);
  CHECK(said.find("--socket") != std::string::npos);
  if (is_root) REQUIRE(::seteuid(0) == 0);
  REQUIRE(::rmdir(directory.c_str()) == 0);
}

TEST_CASE("a user's state stands where the environment says, and without that nowhere") {
  CHECK(*user_state_directory("/s", "/home/u") == "/s/trimtab");
  CHECK(*user_state_directory("", "/home/u") == "/home/u/.local/state/trimtab");
  const auto nowhere = user_state_directory("", "");
  REQUIRE_FALSE(nowhere.ok());
  CHECK(nowhere.error().kind == ErrorKind::kBadInput);
  for (const char* word : {"XDG_STATE_HOME", "HOME", "--state"}) {
    CHECK(nowhere.error().message.find(word) != std::string::npos);
  }
}

TEST_CASE("directories that are made are their user's alone, whatever the umask") {
  char name[] = "/tmp/trimtab-state-XXXXXX";
  const std::string directory = ::mkdtemp(name);
  const mode_t before = ::umask(0);
  const Status made = make_private_directories(directory + "/.local/state//trimtab/");
  ::umask(before);
  REQUIRE(made.ok());
  for (const char* part : {"/.local", "/.local/state", "/.local/state/trimtab"}) {
    struct stat seen {};
    REQUIRE(::stat((directory + part).c_str(), &seen) == 0);
    CHECK((seen.st_mode & 0777U) == 0700U);
  }
  CHECK(check_own_state(directory + "/.local/state/trimtab").ok());
  CHECK(make_private_directories(directory + "/.local").ok());
  CHECK_FALSE(make_private_directories("/proc/self/status/below").ok());
  std::filesystem::remove_all(directory);
}
