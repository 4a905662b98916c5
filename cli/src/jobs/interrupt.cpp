#include "jobs/interrupt.hpp"

#include <csignal>

namespace trimtab::cli {

namespace {

volatile std::sig_atomic_t g_interrupted = 0;  // a signal handler can reach nothing else

void remember(int signal) {
  g_interrupted = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  g_interrupted = 0;
  std::signal(SIGINT, remember);
  std::signal(SIGTERM, remember);
}

InterruptGuard::~InterruptGuard() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

bool InterruptGuard::interrupted() {
  return g_interrupted != 0;
}

}  // namespace trimtab::cli
