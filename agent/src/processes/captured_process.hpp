#pragma once

// A command that runs while the agent listens to it: standard output piece by piece, the tail of standard error, its
// end, a deadline. It does not outlive the agent. Loop thread only.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "net/event_loop.hpp"
#include "processes/child_process.hpp"
#include "processes/process_watch.hpp"

namespace trimtab::agent {

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

  void kill();

 private:
  // One end of a pipe, read without waiting.
  struct Stream {
    int descriptor = -1;
    net::EventLoop::Watch watch;
    void close();
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
