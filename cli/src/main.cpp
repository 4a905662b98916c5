#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>
#include <optional>

#include "command_line.hpp"
#include "terminal_filter.hpp"

namespace {

// Where one of them was closed, the next file would get its number, and what is printed would go there. What is opened
// instead is closed again in a command that takes this process's place.
void fill_standard_descriptors() {
  int opened = 0;
  do {
    opened = open("/dev/null", O_RDWR | O_CLOEXEC);
  } while (opened >= 0 && opened <= STDERR_FILENO);
  if (opened >= 0) close(opened);
}

// Somebody who has read enough (`| head`) misses nothing.
bool reader_left() {
  pollfd output{STDOUT_FILENO, 0, 0};
  return poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

// The exit code, once what was printed has arrived: half an answer is none.
int finished(int code) {
  errno = 0;
  std::cout.flush();
  if (std::cout || reader_left()) return code;
  const std::string cause = errno == 0 ? "" : std::string(": ") + std::strerror(errno);
  std::cerr << "trimtab: standard output took not all of the answer" << cause
            << "; what is there is not complete. Make room and run this again\n";
  return trimtab::exit_code(trimtab::ErrorKind::kUnavailable);
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_descriptors();
  // A reader that goes away is an error of that write, not the end of a tuning run.
  const trimtab::cli::IgnoredSignals ignored{std::signal(SIGPIPE, SIG_IGN) == SIG_IGN,
                                             std::signal(SIGXFSZ, SIG_IGN) == SIG_IGN};
  trimtab::cli::Console console{std::cout, std::cerr, isatty(STDERR_FILENO) == 1, isatty(STDOUT_FILENO) == 1, ignored};
  std::optional<trimtab::cli::TerminalFilter> out;
  std::optional<trimtab::cli::TerminalFilter> err;
  if (console.out_is_terminal) out.emplace(std::cout);
  if (console.err_is_terminal) err.emplace(std::cerr);
  return finished(trimtab::cli::run({argv + 1, argv + argc}, console));
}
