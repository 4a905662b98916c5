#include "run/foreground.hpp"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "run/variables.hpp"

using namespace trimtab::cli;

namespace {

void no_bare(const std::string& why) {
  FAIL("runs bare: " + why);
}

CommandEnd ended(const std::vector<std::string>& words) {
  const SignalGate gate;
  const ProgramPlace place = find_program(words.front(), "/usr/bin:/bin");
  const auto end = run_in_foreground(
      {words, place.path, changed_environment({}), changed_environment({}), {}}, gate, [](pid_t) {}, no_bare);
  REQUIRE(end.ok());
  return *end;
}

class Folder {
 public:
  Folder() { REQUIRE(mkdtemp(path_.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string file(const std::string& name, const std::string& content, bool executable) const {
    std::ofstream(path_ + "/" + name) << content;
    using std::filesystem::perms;
    std::filesystem::permissions(path_ + "/" + name, executable ? perms::owner_all : perms::owner_read);
    return path_ + "/" + name;
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/trimtab-test-XXXXXX";
};

}  // namespace

TEST_CASE("a command's end is its own, by itself or by a signal") {
  CHECK(ended({"sh", "-c", "exit 0"}).exit_code == 0);
  CHECK(ended({"sh", "-c", "exit 41"}).exit_code == 41);
  CHECK(ended({"sh", "-c", "kill -KILL $$"}).signal == SIGKILL);
}

TEST_CASE("what is sent to the one that waits is the command's") {
  const SignalGate gate;
  const std::vector<std::string> words{"sh", "-c",
                                       "trap 'exit 9' USR1; kill -USR1 $PPID; while :; do sleep 0.01; done"};
  const auto end = run_in_foreground(
      {words, "/bin/sh", changed_environment({}), changed_environment({}), {}}, gate, [](pid_t) {}, no_bare);
  REQUIRE(end.ok());
  CHECK(end->exit_code == 9);
}

TEST_CASE("what a watchdog or a broken program would be sent is the command's, too") {
  for (const std::string name : {"ABRT", "SEGV", "SYS", "TRAP"}) {
    const SignalGate gate;
    const std::vector<std::string> words{
        "sh", "-c", "trap 'exit 9' " + name + "; kill -" + name + " $PPID; while :; do sleep 0.01; done"};
    const auto end = run_in_foreground(
        {words, "/bin/sh", changed_environment({}), changed_environment({}), {}}, gate, [](pid_t) {}, no_bare);
    REQUIRE(end.ok());
    CHECK(end->exit_code == 9);
  }
}

TEST_CASE("where what was added leaves no room for the command, it runs without") {
  const SignalGate gate;
  std::string why;
  const auto end = run_in_foreground(
      {{"sh", "-c", "exit ${#ADDED}"},
       "/bin/sh",
       changed_environment({{"ADDED", std::string(200'000, 'x')}}),
       changed_environment({}),
       {}},
      gate, [](pid_t) {}, [&why](const std::string& cause) { why = cause; });
  REQUIRE(end.ok());
  CHECK(end->exit_code == 0);
  CHECK(why == std::strerror(E2BIG));
}

TEST_CASE("where no descriptor is left, this process becomes the command") {
  const pid_t child = fork();
  if (child == 0) {
    const SignalGate gate;
    const rlimit one{4, 4};  // which the command's own libraries need, and a pipe would need two
    close_range(3, ~0U, 0);
    setrlimit(RLIMIT_NOFILE, &one);
    const auto end = run_in_foreground(
        {{"sh", "-c", "exit 41"}, "/bin/sh", changed_environment({}), changed_environment({}), {}}, gate, [](pid_t) {},
        [](const std::string&) {});
    _exit(end.ok() ? 1 : 2);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 41));
}

TEST_CASE("signals that come before the command has begun wait for it") {
  const SignalGate gate;
  kill(getpid(), SIGTERM);
  const auto end = run_in_foreground(
      {{"sleep", "60"}, "/bin/sleep", changed_environment({}), changed_environment({}), {}}, gate, [](pid_t) {},
      no_bare);
  REQUIRE(end.ok());
  CHECK(end->signal == SIGTERM);
}

TEST_CASE("a program is found as a shell finds it, and said why not") {
  const Folder folder;
  const std::string runs = folder.file("runs", "exit 5\n", true);
  const std::string denied = folder.file("denied", "exit 5\n", false);
  CHECK(find_program("sh", "/nonexistent:/bin").path == "/bin/sh");
  CHECK(find_program("runs", "/bin:" + folder.path()).path == runs);
  CHECK(find_program(runs, "").path == runs);
  CHECK(find_program("no-such-program", "/bin:/usr/bin").exit_code == 127);
  CHECK(find_program("/no/such/program", "").exit_code == 127);
  CHECK(find_program(folder.path(), "").exit_code == kNotExecutable);
  CHECK(find_program(denied, "").exit_code == kNotExecutable);
  CHECK(find_program("denied", folder.path()).exit_code == kNotExecutable);
}

TEST_CASE("a script that names no interpreter is the shell's, and a broken program is an error") {
  const Folder folder;
  CHECK(ended({folder.file("plain", "exit $1\n", true), "7"}).exit_code == 7);
  const std::string broken = folder.file("broken", "#!/no/such/interpreter\n", true);
  const SignalGate gate;
  const auto end = run_in_foreground(
      {{broken}, broken, changed_environment({}), changed_environment({}), {}}, gate, [](pid_t) {}, no_bare);
  REQUIRE_FALSE(end.ok());
  CHECK(end.error().message.find(broken) != std::string::npos);
}

TEST_CASE("an environment is changed where it must be, and nowhere else") {
  setenv("TRIMTAB_TEST_KEPT", "1", 1);
  setenv("TRIMTAB_TEST_GONE", "1", 1);
  const auto texts = changed_environment({{"TRIMTAB_TEST_GONE", std::nullopt}, {"TRIMTAB_TEST_NEW", "a=b"}});
  const auto has = [&](const std::string& text) { return std::find(texts.begin(), texts.end(), text) != texts.end(); };
  CHECK(has("TRIMTAB_TEST_KEPT=1"));
  CHECK(has("TRIMTAB_TEST_NEW=a=b"));
  CHECK_FALSE(has("TRIMTAB_TEST_GONE=1"));
  unsetenv("TRIMTAB_TEST_KEPT");
  unsetenv("TRIMTAB_TEST_GONE");
}
