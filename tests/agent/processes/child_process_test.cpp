#include "processes/child_process.hpp"

#include <fcntl.h>
#include <grp.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "../temporary_directory.hpp"
#include "processes/process_identity.hpp"

using namespace trimtab;
using namespace trimtab::agent;

namespace {

ProcessRequest request_for(std::vector<std::string> arguments, const std::string& directory = "/") {
  ProcessRequest request;
  request.arguments = std::move(arguments);
  request.environment = {{"PATH", "/usr/bin:/bin"}, {"GREETING", "hello there"}};
  request.working_directory = directory;
  return request;
}

int status_of(pid_t pid) {
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  return status;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string output_of(const ProcessRequest& wanted) {
  const TemporaryDirectory directory;
  ProcessRequest request = wanted;
  request.output = ::open((directory / "out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  auto process = HeldProcess::fork(request);
  ::close(request.output);
  REQUIRE(process.ok());
  REQUIRE(process->release().ok());
  status_of(process->pid());
  return text_of(directory / "out");
}

}  // namespace

TEST_CASE("a program runs with its arguments, environment and working directory") {
  const TemporaryDirectory directory;
  CHECK(output_of(request_for({"printenv", "GREETING"})) == "hello there\n");
  CHECK(output_of(request_for({"pwd"}, directory.path())).find("trimtab-agent-") != std::string::npos);
}

TEST_CASE("what the agent makes is its user's alone, and a child has the file mask that the agent was started with") {
  ::umask(0027);
  keep_own_files_private();
  keep_own_files_private();
  CHECK(output_of(request_for({"sh", "-c", "umask"})) == "0027\n");
  CHECK(::umask(0022) == 0077);
}

TEST_CASE("the agent may have all the descriptors that the system allows, and a child as many as it was started with") {
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{200, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  allow_all_descriptors();
  allow_all_descriptors();
  rlimit now{};
  ::getrlimit(RLIMIT_NOFILE, &now);
  CHECK(now.rlim_cur == before.rlim_max);
  CHECK(output_of(request_for({"sh", "-c", "ulimit -Sn"})) == "200\n");
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST_CASE("where memory runs out the agent ends before its children, also when it has no rights") {
  // In a process apart, since the score is this one's; as nobody, where the tests are root.
  const pid_t agent = ::fork();
  if (agent == 0) {
    const bool has_rights = ::geteuid() == 0;
    if (has_rights && (::setgroups(0, nullptr) != 0 || ::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(2);
    ::prctl(PR_SET_DUMPABLE, 1);  // as after an exec: its own /proc is its own
    const std::string before = text_of("/proc/self/oom_score_adj");
    if (before.empty() || before == "1000\n") ::_exit(3);
    if (!end_before_ranks() || !end_before_ranks()) ::_exit(4);
    if (text_of("/proc/self/oom_score_adj") != "1000\n") ::_exit(5);
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) ::_exit(6);
    ProcessRequest request = request_for({"cat", "/proc/self/oom_score_adj"});
    request.output = ends[1];
    auto process = HeldProcess::fork(request);
    if (!process.ok() || !process->release().ok()) ::_exit(7);
    char text[16] = {};
    if (::read(ends[0], text, sizeof text - 1) <= 0) ::_exit(8);
    ::_exit(text == before ? 0 : 9);
  }
  const int status = status_of(agent);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("its end is its exit code") {
  auto process = HeldProcess::fork(request_for({"false"}));
  REQUIRE(process.ok());
  REQUIRE(process->release().ok());
  const int status = status_of(process->pid());
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 1);
}

TEST_CASE("it leads a process group of its own and inherits no descriptors") {
  const int leaked = ::open("/dev/null", O_RDONLY);  // without O_CLOEXEC
  REQUIRE(leaked > 2);
  const auto listing = output_of(request_for({"ls", "/proc/self/fd"}));
  ::close(leaked);
  CHECK(listing == "0\n1\n2\n3\n");  // 3 is ls's own, of the listing
  auto process = HeldProcess::fork(request_for({"sleep", "60"}));
  REQUIRE(process.ok());
  REQUIRE(process->release().ok());
  CHECK(::getpgid(process->pid()) == process->pid());
  ::kill(process->pid(), SIGKILL);
  status_of(process->pid());
}

TEST_CASE("signals have their defaults, whatever the agent ignores") {
  ::signal(SIGTERM, SIG_IGN);
  auto process = HeldProcess::fork(request_for({"sleep", "60"}));
  ::signal(SIGTERM, SIG_DFL);
  REQUIRE(process.ok());
  REQUIRE(process->release().ok());
  ::kill(process->pid(), SIGTERM);
  CHECK(WTERMSIG(status_of(process->pid())) == SIGTERM);
}

TEST_CASE("a program does nothing before it is released, and nothing when it never is") {
  const TemporaryDirectory directory;
  pid_t pid = 0;
  {
    auto process = HeldProcess::fork(request_for({"touch", directory / "trace"}));
    REQUIRE(process.ok());
    pid = process->pid();
    CHECK(is_alive(pid, process->start_time()));
  }
  CHECK_FALSE(process_stat(pid));
  CHECK_FALSE(std::filesystem::exists(directory / "trace"));
}

TEST_CASE("two held programs end in either order") {
  std::vector<HeldProcess> held;
  for (int i = 0; i < 3; ++i) held.push_back(HeldProcess::fork(request_for({"true"})).value());
  held.clear();
  SUCCEED();
}

TEST_CASE("a held program keeps none of the agent's locks: a killed agent's successor can take them") {
  const TemporaryDirectory directory;
  const std::string path = directory / "lock";
  const int ours = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(::flock(ours, LOCK_EX | LOCK_NB) == 0);
  const HeldProcess held = HeldProcess::fork(request_for({"sleep", "60"})).value();
  ::close(ours);  // as the kernel does it for a process that is killed
  const int next = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  bool taken = false;
  while (!taken && std::chrono::steady_clock::now() < deadline) {  // until the child has been scheduled
    taken = ::flock(next, LOCK_EX | LOCK_NB) == 0;
  }
  CHECK(taken);
  ::close(next);
}

TEST_CASE("a missing program names itself, the PATH and the working directory") {
  const auto process = HeldProcess::fork(request_for({"no-such-program"}, "/tmp"));
  REQUIRE_FALSE(process.ok());
  CHECK(process.error().kind == ErrorKind::kUnavailable);
  CHECK(process.error().message.find("'no-such-program'") != std::string::npos);
  CHECK(process.error().message.find("/usr/bin:/bin") != std::string::npos);
  CHECK(process.error().message.find("/tmp") != std::string::npos);
}

TEST_CASE("a program with a slash is looked for from the working directory") {
  CHECK(*find_program("bin/ls", "", "/usr") == "/usr/bin/ls");
  CHECK(*find_program("ls", "/nowhere:/usr/bin", "/") == "/usr/bin/ls");
  CHECK(find_program("./ls", "/usr/bin", "/tmp").error().message.find("/tmp/./ls") != std::string::npos);
  CHECK_FALSE(find_program("", "/usr/bin", "/").ok());
  CHECK_FALSE(find_program("bin", "/usr", "/").ok());  // a directory
}

TEST_CASE("a missing working directory is an error, and so is a file that cannot be executed") {
  auto nowhere = HeldProcess::fork(request_for({"/bin/true"}, "/nonexistent-directory"));
  REQUIRE(nowhere.ok());
  // Also when the child has failed before it is released.
  while (!process_stat(nowhere->pid())->ended()) std::this_thread::yield();
  const auto released = nowhere->release();
  REQUIRE_FALSE(released.ok());
  CHECK(released.error().message.find("working directory") != std::string::npos);
  const TemporaryDirectory directory;
  std::ofstream(directory / "text") << "no program\n";
  std::filesystem::permissions(directory / "text", std::filesystem::perms::owner_all);
  auto text = HeldProcess::fork(request_for({directory / "text"}));
  REQUIRE(text.ok());
  const auto run = text->release();
  REQUIRE_FALSE(run.ok());
  CHECK(run.error().message.find("Exec format error") != std::string::npos);
}
