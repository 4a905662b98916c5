#include "run/nodes.hpp"

#include <thread>

#include "daemons/keeper.hpp"
#include "daemons/users.hpp"
#include "run/shared_folder.hpp"

namespace trimtab::cli {

namespace {

constexpr Nanoseconds kPoll = std::chrono::milliseconds(100);
constexpr Nanoseconds kPatience = std::chrono::minutes(2);

// Until the first node has told where its coordinator is, and it answers: an earlier one's place may still stand there.
Result<SharedUp> joined_coordinator(const SharedFolder& folder, const NodeUp& node, const Clock& clock) {
  const Nanoseconds end = clock.monotonic() + kPatience;
  Error last = unavailable("the first node" + (folder.claimed_by().empty() ? "" : " (" + folder.claimed_by() + ")") +
                           " has told no coordinator in " + folder.path() + "; do all nodes see this folder?");
  while (clock.monotonic() < end && !living_users(node.options.state).empty()) {
    if (const auto told = folder.told()) {
      const auto joined = folder.join(*told, node.node, clock);
      if (joined.ok()) return joined;
      last = joined.error();
    }
    std::this_thread::sleep_for(kPoll);
  }
  return last;
}

}  // namespace

Status keep_node(NodeUp node, const Clock& clock) {
  TRIMTAB_TRY(const SharedFolder folder, SharedFolder::open(node.folder));
  if (!node.first) {
    TRIMTAB_TRY(node.options.shared, joined_coordinator(folder, node, clock));
    return keep_daemons(node.options, clock);
  }
  TRIMTAB_TRY(node.options.shared, folder.found(node.node, clock));
  const Status kept = keep_daemons(node.options, clock, [&](const UpState& state) {
    return folder.publish({reachable_hosts(), state.port, node.node, node.job});
  });
  folder.leave();
  return kept;
}

}  // namespace trimtab::cli
