#include "processes/captured_process.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "processes/printable_lines.hpp"

namespace trimtab::agent {

namespace {

constexpr std::size_t kErrorTailBytes = 4096;
constexpr int kReadsPerTurn = 64;

struct Pipe {
  int read = -1;
  int write = -1;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return unavailable(std::string("couldn't make a pipe for a command's output: ") + std::strerror(errno));
  }
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return Pipe{ends[0], ends[1]};
}

// Hands over what is there; false at the end of the stream.
bool read_some(int descriptor, const std::function<void(std::string_view)>& sink) {
  static thread_local std::array<char, 64 * 1024> bytes;
  for (int turn = 0; turn < kReadsPerTurn; ++turn) {
    const ssize_t count = ::read(descriptor, bytes.data(), bytes.size());
    if (count > 0) {
      sink({bytes.data(), static_cast<std::size_t>(count)});
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
      return false;
    } else if (errno == EAGAIN) {
      return true;
    }
  }
  return true;
}

}  // namespace

void CapturedProcess::Stream::close() {
  watch = {};
  if (descriptor >= 0) ::close(std::exchange(descriptor, -1));
}

Result<std::unique_ptr<CapturedProcess>> CapturedProcess::start(net::EventLoop& loop, ProcessRequest request,
                                                                Nanoseconds deadline, Handlers handlers) {
  TRIMTAB_TRY(const Pipe output, make_pipe());
  const auto error = make_pipe();
  std::unique_ptr<CapturedProcess> captured(new CapturedProcess(std::move(handlers)));
  captured->output_.descriptor = output.read;
  captured->error_.descriptor = error.ok() ? error->read : -1;
  request.output = output.write;
  request.error = error.ok() ? error->write : -1;
  request.dies_with_agent = true;
  auto held = HeldProcess::fork(request);
  ::close(output.write);
  if (error.ok()) ::close(error->write);
  if (!held.ok()) return held.error();
  auto* raw = captured.get();
  // The watch comes before the release: should it fail, the child has not run.
  TRIMTAB_TRY(captured->process_,
              ProcessWatch::start(loop, held->pid(), [raw](const ProcessEnd& end) { raw->ended(end); }));
  captured->pid_ = held->pid();
  captured->process_->end_group_with_it();
  if (auto released = held->release(); !released.ok()) {
    captured->process_.reset();  // release() has reaped it
    return released.error();
  }
  captured->deadline_ = loop.after(deadline, [raw] {
    raw->timed_out_ = true;
    raw->kill();
  });
  captured->output_.watch = loop.when_readable(captured->output_.descriptor, [raw] { raw->read_output(); });
  if (error.ok())
    captured->error_.watch = loop.when_readable(captured->error_.descriptor, [raw] { raw->read_error(); });
  return captured;
}

CapturedProcess::~CapturedProcess() {
  if (process_) {
    process_->signal_group(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  output_.close();
  error_.close();
}

void CapturedProcess::kill() {
  if (process_) process_->signal_group(SIGKILL);
}

void CapturedProcess::read_output() {
  if (!read_some(output_.descriptor, handlers_.output)) output_.close();
}

void CapturedProcess::read_error() {
  const auto keep = [this](std::string_view bytes) {
    error_tail_.append(bytes);
    if (error_tail_.size() > 2 * kErrorTailBytes) error_tail_.erase(0, error_tail_.size() - kErrorTailBytes);
  };
  if (!read_some(error_.descriptor, keep)) error_.close();
}

void CapturedProcess::ended(const ProcessEnd& end) {
  deadline_.cancel();
  process_.reset();
  // What it wrote before its end is there now; a grandchild that still holds the pipe is not waited for.
  if (output_.descriptor >= 0) read_output();
  if (error_.descriptor >= 0) read_error();
  output_.close();
  error_.close();
  const auto handler = std::move(handlers_.ended);
  handler({end, timed_out_, last_lines(error_tail_, kErrorTailBytes)});
}

}  // namespace trimtab::agent
