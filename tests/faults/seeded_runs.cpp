#include "seeded_runs.hpp"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>

namespace trimtab::test {

namespace {

struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::map<std::string, std::uint64_t>& faults() {
  static std::map<std::string, std::uint64_t> counts;
  return counts;
}

std::string faults_text() {
  std::string text;
  for (const auto& [fault, count] : faults()) text += (text.empty() ? "" : ", ") + fault + " " + std::to_string(count);
  return text.empty() ? "nothing" : text;
}

// Read when the code under test asserts.
std::string how_to_repeat;

extern "C" void say_how_to_repeat(int) {
  static_cast<void>(!::write(STDERR_FILENO, how_to_repeat.data(), how_to_repeat.size()));
  ::_exit(1);
}

struct Asked {
  std::uint64_t seeds = 0;
  std::uint64_t first = 0;
  std::string scenario;  // empty = all
  bool single = false;
};

std::optional<Asked> read_arguments(int argc, char** argv, std::uint64_t seeds) {
  Asked asked{seeds, std::random_device{}(), "", false};
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 >= argc) return std::nullopt;
    const std::string name = argv[i];
    const std::string value = argv[i + 1];
    if (name == "--scenario") {
      asked.scenario = value;
      continue;
    }
    char* end = nullptr;
    const std::uint64_t number = std::strtoull(value.c_str(), &end, 10);
    if (value.empty() || *end != '\0') return std::nullopt;
    if (name == "--seeds") {
      asked.seeds = number;
    } else if (name == "--first" || name == "--seed") {
      asked.first = number;
      asked.single = name == "--seed";
    } else {
      return std::nullopt;
    }
  }
  if (asked.single) asked.seeds = 1;
  return asked;
}

// False when the seed breaks a promise.
bool run_seed(const char* program, const Scenario& scenario, std::uint64_t seed) {
  how_to_repeat =
      "again with: " + std::string(program) + " --scenario " + scenario.name + " --seed " + std::to_string(seed) + "\n";
  try {
    scenario.run(seed);
    return true;
  } catch (const Broken& broken) {
    std::fprintf(stderr, "%s, seed %llu: %s\n%s", scenario.name.c_str(), static_cast<unsigned long long>(seed),
                 broken.what(), how_to_repeat.c_str());
    return false;
  }
}

}  // namespace

void expect(bool holds, const std::string& promise) {
  if (!holds) throw Broken(promise);
}

void met(const char* fault) {
  ++faults()[fault];
}

int run_seeds(int argc, char** argv, std::uint64_t seeds, const std::vector<Scenario>& scenarios) {
  const auto asked = read_arguments(argc, argv, seeds);
  if (!asked) {
    std::fprintf(stderr, "usage: %s [--seeds N] [--first SEED] [--seed SEED] [--scenario NAME]\n", argv[0]);
    return 2;
  }
  std::signal(SIGABRT, say_how_to_repeat);
  for (const Scenario& scenario : scenarios) {
    if (!asked->scenario.empty() && asked->scenario != scenario.name) continue;
    const auto begin = std::chrono::steady_clock::now();
    faults().clear();
    const std::uint64_t count = asked->single ? 1 : asked->seeds / scenario.share;
    for (std::uint64_t i = 0; i < count; ++i) {
      if (!run_seed(argv[0], scenario, asked->first + i)) return 1;
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("%s: %llu seeds from %llu on hold, %.1f s; met: %s\n", scenario.name.c_str(),
                static_cast<unsigned long long>(count), static_cast<unsigned long long>(asked->first), took.count(),
                faults_text().c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace trimtab::test
