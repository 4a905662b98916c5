#pragma once

// Starting a program: its own process group, no shell, no descriptors but the three, default signals, the file mask
// and the limit of descriptors that the agent was started with. Between fork and exec the child is held at a gate, so
// that the agent can write down the pid first: an agent that is killed in between leaves no program running that nobody
// knows of.

#include <sys/types.h>
#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace trimtab::agent {

struct ProcessRequest {
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;  // all of it
  std::string working_directory;
  int output = -1;  // descriptors for stdout and stderr, not owned; -1 = /dev/null
  int error = -1;
  bool dies_with_agent = false;
  int kept = -1;  // a descriptor that the program has, too, under the same number, above 2; not owned
};

enum class Channel { kPipe, kSocket };
// The two ends, neither of which is a standard descriptor: [0] is read where it is a pipe.
[[nodiscard]] Result<std::array<Descriptor, 2>> make_channel(Channel kind);

class HeldProcess final {
 public:
  [[nodiscard]] static Result<HeldProcess> fork(const ProcessRequest& request);
  HeldProcess(HeldProcess&&) = default;
  HeldProcess& operator=(HeldProcess&&) = delete;
  // Ends the child if it was not released.
  ~HeldProcess();

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] std::uint64_t start_time() const { return start_time_; }

  // Lets it run; fails when it could not be executed, and then it is gone.
  [[nodiscard]] Status release();

 private:
  HeldProcess() = default;
  [[nodiscard]] Status failure_of_child() const;

  pid_t pid_ = -1;
  std::uint64_t start_time_ = 0;
  Descriptor gate_;
  Descriptor failure_;
  std::string program_;
};

// What this process makes is its user's alone from now on; children get the mask that was there before. The first call
// counts. Before the first thread.
void keep_own_files_private();

// This process may have as many descriptors from now on as the system lets it; children get the limit that was there
// before: select() knows no more than 1024. The first call counts. Before the first thread.
void allow_all_descriptors();

// Where memory runs out the kernel ends this process from now on, before any rank: its score for that (oom_score_adj,
// proc(5)) is the highest. Children get the one that was there before: a process may lower its own again to what a
// privileged one has set last, and raising it as another does not change that. The first call counts. False where
// nothing could be read or raised. Before the first thread.
bool end_before_ranks();

// This process's environment as a map.
[[nodiscard]] std::map<std::string, std::string> own_environment();

// Which file a command's first word means, as a shell would find it; looked up before the fork, so that the error can
// say what was searched.

// A name with a slash is taken from `working_directory`; else PATH (`path`) is searched.
[[nodiscard]] Result<std::string> find_program(const std::string& name, const std::string& path,
                                               const std::string& working_directory);

}  // namespace trimtab::agent
