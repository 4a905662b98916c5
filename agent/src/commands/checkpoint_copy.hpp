#pragma once

// A trial's own copy of the job's checkpoint, made on a thread: it may take minutes, and the loop has a coordinator to
// answer. Loop thread only. Destroying it cancels the copying and waits for the thread, which looks up every 16 MiB;
// nothing is told any more.

#include <functional>
#include <memory>
#include <thread>

#include "commands/checkpoint_tree.hpp"
#include "commands/running_command.hpp"
#include "commands/scratch.hpp"
#include "net/event_loop.hpp"

namespace trimtab::agent {

class CheckpointCopy final : public RunningCommand {
 public:
  struct Handlers {
    std::function<void()> moved;              // now and then, when more has been copied
    std::function<void(const Status&)> done;  // once, never from within the constructor; may destroy the copy
  };
  // See Scratch::copy_checkpoint().
  CheckpointCopy(net::EventLoop& loop, Scratch scratch, std::string source, Handlers handlers);
  ~CheckpointCopy() override;
  CheckpointCopy(const CheckpointCopy&) = delete;
  CheckpointCopy& operator=(const CheckpointCopy&) = delete;

 private:
  struct Shared {
    CopyWatch watch;
    CheckpointCopy* owner = nullptr;  // none once it is destroyed; the loop's alone
  };
  void look();
  void ended(const Status& status);

  Handlers handlers_;
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::uint64_t told_ = 0;
  net::EventLoop::Timer looks_;
  std::thread thread_;
};

}  // namespace trimtab::agent
