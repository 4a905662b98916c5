#pragma once

// A command that runs while the agent listens to it: standard output piece by piece, the tail of standard error, its
// end, a deadline. It does not outlive the agent. Loop thread only.

#include <cstddef>
#include <string_view>

#include "processes/child_process.hpp"
#include "processes/process_watch.hpp"

namespace trimtab::agent {

// Cuts a stream of bytes into lines. Pure; a line beyond the limit is thrown away whole.
class LineCutter {
 public:
  explicit LineCutter(std::size_t max_line = 1U << 20) : max_line_(max_line) {}

  void add(std::string_view bytes, const std::function<void(std::string_view)>& line) {
    while (!bytes.empty()) {
      const auto end = bytes.find('\n');
      keep(bytes.substr(0, end));
      if (end == std::string_view::npos) return;
      finish(line);
      bytes = bytes.substr(end + 1);
    }
  }
  // The stream has ended: what came without a newline is a line.
  void finish(const std::function<void(std::string_view)>& line) {
    if (!too_long_ && !pending_.empty()) line(pending_);
    pending_.clear();
    too_long_ = false;
  }

 private:
  void keep(std::string_view part) {
    too_long_ = too_long_ || pending_.size() + part.size() > max_line_;
    if (too_long_) {
      pending_.clear();
    } else {
      pending_.append(part);
    }
  }

  std::size_t max_line_;
  std::string pending_;
  bool too_long_ = false;
};

struct CaptureEnd {
  ProcessEnd end;
  bool timed_out = false;
  std::string error_tail;  // printable text
};

class CapturedProcess final {
 public:
  struct Handlers {
    std::function<void(std::string_view)> output;
    std::function<void(const CaptureEnd&)> ended;  // once; nothing comes after it
  };
  // request.output and request.error are set here. Destroying the object kills the process and its group.
  [[nodiscard]] static Result<std::unique_ptr<CapturedProcess>> start(net::EventLoop& loop, ProcessRequest request,
                                                                      Nanoseconds deadline, Handlers handlers);
  ~CapturedProcess();
  CapturedProcess(const CapturedProcess&) = delete;
  CapturedProcess& operator=(const CapturedProcess&) = delete;

  // The signal that has ended it, as soon as it has.
  [[nodiscard]] std::int32_t ended_by() const { return process_ ? process_->ended_by() : 0; }
  void kill() {
    if (process_) process_->signal_group(SIGKILL);
  }

 private:
  // One end of a pipe, read without waiting.
  struct Stream {
    Descriptor descriptor;
    net::EventLoop::Watch watch;
    void close() {
      watch = {};
      descriptor.close();
    }
  };
  explicit CapturedProcess(Handlers handlers) : handlers_(std::move(handlers)) {}
  void read_output();
  void read_error();
  void ended(const ProcessEnd& end);

  Handlers handlers_;
  std::unique_ptr<ProcessWatch> process_;  // while it runs
  pid_t pid_ = 0;
  Stream output_;
  Stream error_;
  std::string error_tail_;
  net::EventLoop::Timer deadline_;
  bool timed_out_ = false;
};

}  // namespace trimtab::agent
