#pragma once

// A trial's own copy of the job's checkpoint.

#include <atomic>
#include <thread>

#include "commands/job_programs.hpp"
#include "commands/scratch.hpp"

namespace trimtab::agent {

// What the copying thread and its owner share.
struct CopyWatch {
  std::atomic<bool> cancelled = false;  // looked at every 16 MiB and every entry
  std::atomic<std::uint64_t> bytes = 0;
};

// What a copy of a checkpoint consists of.
struct CopyContents {
  std::int64_t files = 0;
  Bytes bytes = 0;      // as the files say, holes included: they are written, too
  std::string largest;  // of the files

  bool operator==(const CopyContents&) const = default;
};
// Of the copy that copy_tree() would make; nothing is written. Any thread.
[[nodiscard]] Result<CopyContents> contents_of(const std::string& source, CopyWatch& watch);

// How fast files are copied from one place to another.
struct CopySample {
  bool shared = false;          // FICLONE works: a copy shares its blocks with what it is a copy of
  double bytes_per_second = 0;  // of what is copied; 0: it is shared
  double file_seconds = 0;      // beside that, for each file: opening both
};
// Copies the begin of the largest file to `path`, which is removed again: 64 MiB at most, and no
// more than fit into a second. Of a checkpoint that is larger than memory holds without hurry the part is written to
// the disk and read from it. Any thread.
[[nodiscard]] Result<CopySample> sample_copy(const CopyContents& contents, const std::string& path, CopyWatch& watch);

// A copy of a job's checkpoint that nothing written to it can reach out of: a link to a place outside becomes what it
// stands for, one to a place inside leads to the copy of that place, and one that stands for nothing is left out. Any
// thread. `source` is a file or a directory, or a link to one; `destination` must not exist. On failure, cancelling
// included, what there is of the copy stays and is the caller's to remove.
[[nodiscard]] Status copy_tree(const std::string& source, const std::string& destination, CopyWatch& watch);

// Makes the scratch's checkpoint() a copy of `source`; nothing where there is none yet. May take minutes; any thread.
[[nodiscard]] Status copy_checkpoint(const Scratch& scratch, const std::string& source, CopyWatch& watch);

// Made on a thread: it may take minutes, and the loop has a coordinator to answer. Loop thread only. Destroying it
// cancels the copying and waits for the thread, which looks up every 16 MiB; nothing is told any more.
class CheckpointCopy final : public RunningCommand {
 public:
  struct Handlers {
    std::function<void()> moved;  // now and then, when more has been copied
    // Once, never from within the constructor; may destroy the copy. How fast it was, in bytes a second; 0: not known.
    std::function<void(const Status&, double speed)> done;
  };
  CheckpointCopy(net::EventLoop& loop, Scratch scratch, std::string source, Handlers handlers);
  ~CheckpointCopy() override;
  CheckpointCopy(const CheckpointCopy&) = delete;
  CheckpointCopy& operator=(const CheckpointCopy&) = delete;

 private:
  struct Shared {
    CopyWatch watch;
    CheckpointCopy* owner = nullptr;  // none once it is destroyed; the loop's alone
  };
  void look() {
    if (std::exchange(told_, shared_->watch.bytes.load()) != shared_->watch.bytes) handlers_.moved();
  }
  void ended(const Status& status, double speed);

  Handlers handlers_;
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  std::uint64_t told_ = 0;
  net::EventLoop::Timer looks_;
  std::thread thread_;
};

}  // namespace trimtab::agent
