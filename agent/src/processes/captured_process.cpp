#include "processes/captured_process.hpp"

#include <fcntl.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "processes/printable_text.hpp"

namespace trimtab::agent {

namespace {

constexpr std::size_t kErrorTailBytes = 4096;
constexpr int kReadsPerTurn = 64;

struct Pipe {
  Descriptor read;
  Descriptor write;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return unavailable(std::string("couldn't make a pipe for a command's output: ") + std::strerror(errno));
  }
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
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

Result<std::unique_ptr<CapturedProcess>> CapturedProcess::start(net::EventLoop& loop, ProcessRequest request,
                                                                Nanoseconds deadline, Handlers handlers) {
  TRIMTAB_TRY(Pipe output, make_pipe());
  auto error = make_pipe();
  std::unique_ptr<CapturedProcess> captured(new CapturedProcess(std::move(handlers)));
  captured->output_.descriptor = std::move(output.read);
  request.output = output.write.get();
  if (error.ok()) {
    captured->error_.descriptor = std::move(error->read);
    request.error = error->write.get();
  }
  request.dies_with_agent = true;
  TRIMTAB_TRY(HeldProcess held, HeldProcess::fork(request));
  auto* raw = captured.get();
  // The watch comes before the release: should it fail, the child has not run.
  TRIMTAB_TRY(captured->process_,
              ProcessWatch::start(loop, held.pid(), [raw](const ProcessEnd& end) { raw->ended(end); }));
  captured->pid_ = held.pid();
  captured->process_->end_group_with_it();
  if (auto released = held.release(); !released.ok()) {
    captured->process_.reset();  // release() has reaped it
    return released.error();
  }
  captured->deadline_ = loop.after(deadline, [raw] {
    raw->timed_out_ = true;
    raw->kill();
  });
  captured->output_.watch = loop.when_readable(captured->output_.descriptor.get(), [raw] { raw->read_output(); });
  if (error.ok())
    captured->error_.watch = loop.when_readable(captured->error_.descriptor.get(), [raw] { raw->read_error(); });
  return captured;
}

CapturedProcess::~CapturedProcess() {
  if (process_) {
    process_->signal_group(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

void CapturedProcess::read_output() {
  if (!read_some(output_.descriptor.get(), handlers_.output)) output_.close();
}

void CapturedProcess::read_error() {
  const auto keep = [this](std::string_view bytes) {
    error_tail_.append(bytes);
    if (error_tail_.size() > 2 * kErrorTailBytes) error_tail_.erase(0, error_tail_.size() - kErrorTailBytes);
  };
  if (!read_some(error_.descriptor.get(), keep)) error_.close();
}

void CapturedProcess::ended(const ProcessEnd& end) {
  deadline_.cancel();
  process_.reset();
  // What it wrote before its end is there now; a grandchild that still holds the pipe is not waited for.
  if (output_.descriptor) read_output();
  if (error_.descriptor) read_error();
  output_.close();
  error_.close();
  const auto handler = std::move(handlers_.ended);
  handler({end, timed_out_, last_lines(error_tail_, kErrorTailBytes)});
}

}  // namespace trimtab::agent
