#pragma once

// A job's directory under the agent's state: plans, snapshots, the ranks' logs. One for the job, one for each of its
// variants.

#include <set>
#include <vector>

#include "base/units.hpp"
#include "ranks/rank_identity.hpp"
#include "schema/job_name.hpp"

namespace trimtab::agent {

class Scratch {
 public:
  // REQUIRES: both are names of jobs (is_job_name), `variant` may be empty.
  Scratch(const std::string& state, const std::string& job, const std::string& variant);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string tenant() const { return path_ + "/tenant"; }  // whose it is, in the job's own alone
  [[nodiscard]] std::string job() const { return path_ + "/job.json"; }
  [[nodiscard]] std::string model() const { return path_ + "/model.json"; }
  [[nodiscard]] std::string plan(std::uint64_t epoch) const {
    return path_ + "/plan-" + std::to_string(epoch) + ".json";
  }
  // A file of its own for each launch: it never changes while a rank may still read it.
  [[nodiscard]] std::string nccl_table(std::uint64_t launch) const {
    return path_ + "/nccl-" + std::to_string(launch) + ".table";
  }
  [[nodiscard]] std::string snapshots() const { return path_ + "/snapshots"; }
  // Of a trial: a copy of the job's checkpoint, its own to read and write.
  [[nodiscard]] std::string checkpoint() const { return path_ + "/checkpoint"; }
  [[nodiscard]] std::string log(std::uint32_t rank) const {
    return path_ + (rank == kLauncher ? "/launcher" : "/rank-" + std::to_string(rank)) + ".log";
  }

  // What the program of a rank imports, as it notes itself.
  [[nodiscard]] std::string imports(std::uint32_t rank) const { return path_ + "/imports-" + std::to_string(rank); }

  [[nodiscard]] Status create() const;
  [[nodiscard]] Status remove_snapshots() const;

 private:
  std::string path_;
};

// The paths of all there are under the state.
[[nodiscard]] std::vector<std::string> scratch_paths(const std::string& state);
// Whose such a path is.
[[nodiscard]] std::string job_of_scratch(const std::string& path);
// All whose there are under the state.
[[nodiscard]] std::set<std::string> scratch_jobs(const std::string& state);
// Removes the tables of NCCL choices in a scratch's path but those of these launches. What cannot be removed is logged,
// and tried again next time.
void keep_nccl_tables(const std::string& path, const std::set<std::uint64_t>& launches);

// Whole or not at all, also after a power cut (schema/durable_file.hpp).
[[nodiscard]] Status write_file(const std::string& path, std::string_view text);
// Of a regular file, 256 MiB at most: who can write beside it can put a pipe or a device in its place.
[[nodiscard]] Result<std::string> read_file(const std::string& path);

// Opens a rank's log to append, the earlier one kept as PATH.previous. The caller owns the descriptor.
[[nodiscard]] Result<int> open_log(const std::string& path);
// Where a log has outgrown the limit: its last part goes to PATH.previous and it starts anew. The rank writes on.
void bound_log(const std::string& path, Bytes limit);
// 0 where there is none.
[[nodiscard]] std::int64_t log_bytes(const std::string& path);

}  // namespace trimtab::agent
