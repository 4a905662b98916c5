#pragma once

// Which jobs are not over, as agents are told: what those have left on a node is kept there, however long it lies. A
// node is told of jobs that may run there, and of others' where it has said itself that it has something of them: it
// may have served everybody then. Event loop's thread only.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "agents/membership.hpp"
#include "agents/wire_messages.hpp"
#include "jobs/job_table.hpp"

namespace trimtab::coordinator {

class UnfinishedJobs {
 public:
  // Where there are more, agents are told that not all are known.
  static constexpr std::size_t kMost = 10'000;

  // A ToAgent message as it is sent; nodes share it.
  using Frame = std::shared_ptr<const std::string>;

  // `jobs` must outlive it.
  explicit UnfinishedJobs(const JobTable& jobs) : jobs_(jobs) {}

  // A node is here, and has said this; it has been told nothing yet.
  void introduced(const Member& member, const wire::Hello& hello);
  void gone(std::uint64_t peer) { told_.erase(peer); }

  // Looks again; true where something has changed since the last look.
  [[nodiscard]] bool look();
  // What to tell the node of what was seen then; null where it has been told.
  [[nodiscard]] Frame news_for(const Member& member);

 private:
  struct Told {
    std::set<std::string> named;  // jobs of which the node has something
    bool named_all = true;        // there is room in a hello for no more
    Frame frame;
  };
  struct Seen {
    std::map<std::string, std::string> tenants;  // of each job that is not over
    bool complete = false;
    bool operator==(const Seen&) const = default;
  };
  [[nodiscard]] Frame frame_for(const Member& member, const Told& told);
  [[nodiscard]] std::set<std::string> others_of(const Member& member, const Told& told) const;
  using NameAndTenant = std::map<std::string, std::string>::value_type;
  [[nodiscard]] std::string encoded(bool complete, const std::function<bool(const NameAndTenant&)>& is_told) const;

  const JobTable& jobs_;
  Seen seen_;
  std::map<std::string, Frame> frames_;  // of those who have nothing of others, by tenant
  std::map<std::uint64_t, Told> told_;   // by peer
};

}  // namespace trimtab::coordinator
