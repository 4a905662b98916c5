#pragma once

// A command that takes a while: it runs processes and says when it is done. Loop thread only.

#include <functional>
#include <string>

#include "wire/agent.pb.h"

namespace trimtab::agent {

// The reply's id is filled in by whoever runs the command.
struct CommandReply {
  bool ok = true;
  std::string error;
  std::string output;
  std::uint32_t exit_code = 0;
};
[[nodiscard]] inline CommandReply failed_reply(std::string error) {
  return {false, std::move(error), "", 0};
}

class RunningCommand {
 public:
  virtual ~RunningCommand() = default;  // ends its processes
};

struct CommandCallbacks {
  std::function<void(const wire::CommandProgress&)> progress;
  std::function<void(CommandReply)> done;  // once, never from within the start
};

}  // namespace trimtab::agent
