#include "jobs/interrupt.hpp"

#include <csignal>

namespace trimtab::cli {

namespace {

// A signal handler can reach nothing else.
volatile std::sig_atomic_t g_signals = 0;
volatile std::sig_atomic_t g_terminated = 0;
volatile std::sig_atomic_t g_remembered = 1;

void remember(int signal) {
  g_signals = g_signals + 1;
  if (signal == SIGTERM) g_terminated = 1;
  if (g_signals < g_remembered) return;
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

}  // namespace

InterruptGuard::InterruptGuard(int remembered) {
  g_signals = 0;
  g_terminated = 0;
  g_remembered = remembered;
  std::signal(SIGINT, remember);
  std::signal(SIGTERM, remember);
}

InterruptGuard::~InterruptGuard() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

bool InterruptGuard::interrupted() {
  return g_signals != 0;
}

int InterruptGuard::signals() {
  return g_signals;
}

bool InterruptGuard::terminated() {
  return g_terminated != 0;
}

}  // namespace trimtab::cli
