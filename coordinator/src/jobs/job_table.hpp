#pragma once

// The jobs that the coordinator knows: each name's latest run. Submission, restoring, orders. Event loop's thread only.
//
// What jobs take of the coordinator's memory is charged to their tenants (accounts.hpp, held_memory.hpp). A job that
// has no room is not taken. One that is stored and has no room when the coordinator starts stays where it is stored,
// until others give it room: nothing of it is lost, and its name and devices are its own.

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "jobs/job_run.hpp"

namespace trimtab::coordinator {

struct Submitted {
  JobRun* job = nullptr;     // owned by the table
  bool was_running = false;  // the same document was handed in before, and that run is not over
};

class JobTable {
 public:
  explicit JobTable(const JobNeeds& services) : services_(services) {}

  // Takes up what an earlier coordinator left.
  [[nodiscard]] Status restore();
  // The error is kNo when another job of this name runs already or there are too many, kBadInput when the job cannot be
  // tuned as it asks.
  // A name belongs to the tenant who used it first: the job's files on the nodes go by it.
  [[nodiscard]] Result<Submitted> submit(Job job, bool tune, const std::string& tenant = "*");
  // The run that a rank belongs to whose job its user launched: the present one, or a new one where there is none, or
  // where that is over. kNo where the name is that of a job that Trimtab has launched, or there are too many. `tenant`:
  // of a job whose name nobody has used yet; `serves`: whether the rank's node runs jobs of that tenant.
  [[nodiscard]] Result<JobRun*> watch(const std::string& name, const RankWatched& rank, const std::string& tenant,
                                      const std::function<bool(const std::string& tenant)>& serves);
  // A job that goes on and is stored, but has no room in memory.
  struct Unloaded {
    std::int64_t run = 0;
    std::string tenant;
    std::uint64_t bytes = 0;  // that it needs
    std::string why;          // for people, with what to do
  };
  [[nodiscard]] const std::map<std::string, Unloaded>& unloaded() const { return unloaded_; }

  // What jobs take of the coordinator's memory: all of them, and those of a tenant.
  [[nodiscard]] std::uint64_t held_bytes() const;
  [[nodiscard]] std::uint64_t held_bytes(const std::string& tenant) const;

  [[nodiscard]] JobRun* find(const std::string& name);
  [[nodiscard]] JobRun* find_run(std::int64_t run);
  [[nodiscard]] const std::map<std::string, std::unique_ptr<JobRun>>& jobs() const { return jobs_; }
  // False where a stored job cannot be read, or is not loaded: there may be others.
  [[nodiscard]] bool knows_all() const { return !left_alone_ && unloaded_.empty(); }

  // The oldest run that is over of a tenant that has nearly all of its share of max_jobs: it goes before its time, so
  // that neither this tenant nor others wait for room.
  [[nodiscard]] std::optional<std::int64_t> surplus() const;
  // A run that is over, and begins to be removed from the store.
  void forget(std::int64_t run);

  void tick();
  void follow_holds();  // as JobRun::follow_holds(), for all of them
  void feed_all(const Event& event);

 private:
  // Known jobs that one tenant may have: a quarter of max_jobs stays for the others.
  [[nodiscard]] std::size_t known_share() const;
  void remove_old_files() const;
  [[nodiscard]] Result<JobRun*> begin(TuningState state);
  [[nodiscard]] Status check_room(const std::string& name, const std::string& tenant) const;
  // Whether the account has room for a job that needs so much; `present`: that it takes the place of.
  [[nodiscard]] Status check_account(const std::string& name, const std::string& tenant, std::uint64_t bytes,
                                     const JobRun* present) const;
  [[nodiscard]] Status load(const StoredRun& stored);
  // One whose stored state is damaged.
  void give_up(std::int64_t run, const TuningState& state) const;
  void load_late();

  const JobNeeds& services_;
  static constexpr Nanoseconds kBetweenLoads = std::chrono::seconds(10);

  bool left_alone_ = false;  // a stored job cannot be read: nobody knows which files are its
  std::map<std::string, Unloaded> unloaded_;
  Nanoseconds next_load_{0};
  std::map<std::string, std::unique_ptr<JobRun>> jobs_;
};

// Why the job cannot be tuned by this release; ok when it can.
[[nodiscard]] Status check_job(const Job& job, bool tune);

}  // namespace trimtab::coordinator
