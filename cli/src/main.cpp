#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <iostream>

#include "command_line.hpp"

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

}  // namespace

int main(int argc, char** argv) {
  fill_standard_descriptors();
  // A reader that goes away is an error of that write, not the end of a tuning run.
  const bool ignored = std::signal(SIGPIPE, SIG_IGN) == SIG_IGN;
  trimtab::cli::Console console{std::cout, std::cerr, isatty(STDERR_FILENO) == 1, isatty(STDOUT_FILENO) == 1, ignored};
  return trimtab::cli::run({argv + 1, argv + argc}, console);
}
