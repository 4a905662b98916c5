#include "daemons/keeper.hpp"

#include <sstream>
#include <thread>

#include "daemons/users.hpp"
#include "files.hpp"

namespace trimtab::cli {

namespace {

constexpr Nanoseconds kPoll = std::chrono::milliseconds(200);

bool is_ours(const std::string& state_directory) {
  const auto state = recorded_state(state_directory);
  return state && state->owner == this_process();
}

}  // namespace

Status keep_daemons(const UpOptions& options, const Clock& clock,
                    const std::function<Status(const UpState&)>& when_up) {
  const auto is_used = [&] { return may_have_users(options.state); };
  TRIMTAB_TRY(const UpOutcome outcome, bring_up(options, clock));
  if (const Status told = when_up(outcome.state); !told.ok()) {
    TRIMTAB_TRY_STATUS(release(options.state, clock));
    return told;
  }
  while (is_ours(options.state)) {
    if (!is_used()) {
      TRIMTAB_TRY(const bool released, release_unused(options.state, clock, is_used));
      if (released) return {};
    }
    std::this_thread::sleep_for(kPoll);
  }
  return {};
}

std::string keeper_log(const std::string& state_directory) {
  return state_directory + "/keeper.log";
}

std::string last_line(const std::string& path) {
  const auto text = read_own_file(path);
  std::istringstream stream(text.ok() ? *text : "");
  std::string last;
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

}  // namespace trimtab::cli
