#include <unistd.h>

#include <csignal>
#include <iostream>

#include "command_line.hpp"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that goes away is an error of that write, not the end of a tuning run
  trimtab::cli::Console console{std::cout, std::cerr, isatty(STDERR_FILENO) == 1, isatty(STDOUT_FILENO) == 1};
  return trimtab::cli::run({argv + 1, argv + argc}, console);
}
