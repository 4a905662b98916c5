// What nodes say of their kill switches.

#include <spdlog/spdlog.h>

#include "agents/agents.hpp"
#include "services.hpp"
#include "state_store.hpp"

namespace trimtab::coordinator {
namespace {

constexpr Nanoseconds kBetweenSwitches = std::chrono::seconds(1);

}  // namespace

// Each change is a commit, so a node has one in a while; of those that come sooner the last is taken when it is over.
void Agents::said_kill_switch(const Member& member, bool thrown) {
  const Nanoseconds now = services_.clock.monotonic();
  const auto changed = switches_.find(member.node);
  const bool may_change = changed == switches_.end() || now - changed->second.at >= kBetweenSwitches;
  if (!may_change) return void(changed->second.said = thrown);
  if (!services_.members.said_kill_switch(member.peer, thrown)) return;
  switches_[member.node] = {now, thrown};
  note_kill_switch(member);
  jobs_.follow_holds();
}

// What a node said that is away by now it says again when it is back. Jobs follow with their own tick, behind this.
void Agents::take_kill_switches() {
  LoopTime& time = services_.loop_time;
  for (auto one = switches_.begin(); one != switches_.end();) {
    const Nanoseconds now = services_.clock.monotonic();
    const Member* member = services_.members.by_node(one->first);
    const std::string* tenant = member == nullptr ? nullptr : charged_tenant(member->peer);
    const bool waits = now - one->second.at < kBetweenSwitches || (tenant != nullptr && !time.may_go_on(*tenant, now));
    const bool differs = member != nullptr && member->peer != 0 && member->kill_switch != one->second.said;
    if (!waits && !differs) {
      one = switches_.erase(one);
      continue;
    }
    if (!waits && services_.members.said_kill_switch(member->peer, one->second.said)) {
      one->second.at = now;
      note_kill_switch(*member);
      if (tenant != nullptr) time.charge(*tenant, now, services_.clock.monotonic());
    }
    ++one;
  }
}

void Agents::note_kill_switch(const Member& member) {
  const char* what = member.kill_switch ? "throw the kill switch" : "release the kill switch";
  spdlog::warn("node {}: somebody chose to {}", member.node, what);
  note({"node " + member.node, what, "", 0, "a person on the node"});
}

}  // namespace trimtab::coordinator
