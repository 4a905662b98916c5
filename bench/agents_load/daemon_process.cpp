#include "daemon_process.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

namespace trimtab::load {

namespace {

using namespace std::chrono_literals;

constexpr auto kStartTime = 30s;
constexpr auto kEndTime = 30s;

template <typename Done>
bool wait_until(const Done& done, std::chrono::seconds at_most) {
  const auto end = std::chrono::steady_clock::now() + at_most;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

Bytes kilobytes_of(const std::string& status, const std::string& name) {
  const std::size_t at = status.find(name + ":");
  return at == std::string::npos ? 0 : std::strtoll(status.c_str() + at + name.size() + 1, nullptr, 10) * 1024;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

DaemonProcess::~DaemonProcess() {
  if (pid_ > 0) (void)end(SIGKILL);
}

Status DaemonProcess::start(std::vector<std::string> words, const std::function<bool()>& ready) {
  program_ = words.front();
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  if (pid_ < 0) return unavailable("no process could be made for " + program_);
  bool gone = false;
  const auto up = [&] {
    gone = ::waitpid(pid_, nullptr, WNOHANG) == pid_;
    return gone || ready();
  };
  const bool in_time = wait_until(up, kStartTime);
  if (gone) pid_ = 0;
  if (in_time && !gone) return {};
  return unavailable(program_ + (gone ? " ended at once: see what it wrote above" : " is not ready after 30 s"));
}

void DaemonProcess::signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);
}

Status DaemonProcess::end(int number) {
  if (pid_ == 0) return {};
  signal(number);
  int status = 0;
  if (!wait_until([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; }, kEndTime)) {
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return unavailable(program_ + " did not end within 30 s of signal " + std::to_string(number));
  }
  pid_ = 0;
  if (number == SIGKILL || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) return {};
  return unavailable(program_ + " ended with status " + std::to_string(status));
}

ProcessUse DaemonProcess::use() const {
  if (pid_ == 0) return {};
  const std::string directory = "/proc/" + std::to_string(pid_);
  const std::string status = text_of(directory + "/status");
  ProcessUse use{kilobytes_of(status, "VmRSS"), kilobytes_of(status, "VmHWM"), 0, 0};
  // After the name in parentheses: state is field 3; user and system time are 14 and 15, in ticks.
  const std::string stat = text_of(directory + "/stat");
  std::istringstream fields(stat.substr(std::min(stat.size(), stat.rfind(')') + 1)));
  std::string skipped;
  for (int field = 3; field < 14; ++field) fields >> skipped;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  use.cpu_seconds = (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator(directory + "/fd", gone)) {
    use.descriptors += entry.path().empty() ? 0 : 1;
  }
  return use;
}

}  // namespace trimtab::load
