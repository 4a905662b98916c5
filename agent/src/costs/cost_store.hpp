#pragma once

// Where the agent's measurements go: every batch into the spool, under its number into the agent's own cost database,
// and to the coordinator until that has acknowledged it. One owner thread.

#include <set>

#include "agent_database.hpp"
#include "costs/cost_batches.hpp"
#include "net/metric_text.hpp"
#include "schema/cost_database.hpp"

namespace trimtab::agent {

// Cost batches on disk until the coordinator has acknowledged them. A batch is stored before it is sent and keeps its
// number, so an agent that is killed at any moment sends it again under the same number, and the coordinator counts it
// once. Bounded: beyond the limit passive batches are not taken, beyond twice the limit none is. None that has a number
// is ever given up: the coordinator folds an origin's batches for as long as none is missing (schema/README.md). One
// owner thread.
struct SpooledBatch {
  std::uint64_t id = 0;
  std::string payload;
};

class BatchSpool {
 public:
  // `database` must outlive the spool.
  [[nodiscard]] static Result<BatchSpool> open(Database& database, Bytes limit);

  // The batch's number; 0 when it found no room and is not stored. Active batches (asked-for benchmarks) find some up
  // to twice the limit. On failure (disk full) nothing is stored.
  [[nodiscard]] Result<std::uint64_t> put(bool active, const std::string& payload);
  // Also of a batch that is not there (any more).
  [[nodiscard]] Status acknowledge(std::uint64_t id);
  // Those with larger numbers than `after`, oldest first.
  [[nodiscard]] Result<std::vector<SpooledBatch>> next(std::uint64_t after, std::size_t count) const;

  // Of a release that knows other costs, or damaged. A copy is kept aside under `instance`, and the batch stays in the
  // spool; where no coordinator can read it either, it leaves.
  [[nodiscard]] Status set_aside(const std::string& instance, const SpooledBatch& batch, const std::string& reason,
                                 bool leaves);
  struct AsideBatch {
    std::string instance;
    SpooledBatch batch;
  };
  // Those with larger names and numbers than `after`, in order.
  [[nodiscard]] Result<std::vector<AsideBatch>> next_aside(const AsideBatch& after, std::size_t count) const;
  [[nodiscard]] Status forget_aside(const AsideBatch& aside);
  // How many are kept aside.
  [[nodiscard]] std::uint64_t aside() const { return aside_; }

  [[nodiscard]] Bytes bytes() const { return bytes_; }
  [[nodiscard]] Bytes limit() const { return limit_; }

 private:
  BatchSpool(Database& database, Bytes limit) : database_(&database), limit_(limit) {}
  [[nodiscard]] Status count_aside();

  Database* database_;
  Bytes limit_;
  Bytes bytes_ = 0;
  std::uint64_t aside_ = 0;
};

class CostStore {
 public:
  // False when the link does not take it now.
  using Send = std::function<bool(const wire::FromAgent&)>;
  static constexpr std::size_t kMaxInFlight = 8;
  static constexpr Nanoseconds kAnswerTime = std::chrono::seconds(30);

  // Batches that were spooled and not entered when the agent died are entered now. One that this release cannot read is
  // kept aside, for a release that can, and is sent all the same; nothing waits for it.
  [[nodiscard]] static Result<CostStore> open(Database& database, const std::string& costs_path, std::string instance,
                                              Bytes spool_limit, Send send);

  // False when it could not be stored (disk or spool full): the caller keeps the costs.
  [[nodiscard]] bool store(const CostOrigin& origin, const std::vector<Cost>& costs);

  // The highest number under which a coordinator may have stored a batch of this instance: those that were there at the
  // start, or were sent since.
  [[nodiscard]] std::uint64_t last_offered() const { return last_offered_; }
  // Later batches wait for a new instance (agent_database.hpp).
  void send_up_to(std::uint64_t last) { last_to_send_ = last; }
  // To be called before the instance is renewed: batches that wait for it are in this node's own database under the old
  // one, and must not count there again.
  [[nodiscard]] Status prepare_renewal(const std::string& instance, std::uint64_t batches);
  // The origin of the batches from now on, and their numbers are others.
  void renew(std::string instance);
  void link_opened();
  // Sends what may be sent. What was sent and has waited for an answer since kAnswerTime is sent again: the coordinator
  // does not acknowledge what it could not store. What our own disk had no room for is tried again. `now` is monotonic.
  void look_after(Nanoseconds now);
  void acknowledged(std::uint64_t batch);

  // Of the node's own database of costs.
  [[nodiscard]] DatabaseHealth look_after_costs() { return costs_.look_after(); }
  [[nodiscard]] const BatchSpool& spool() const { return spool_; }
  struct Counters {
    std::uint64_t spooled = 0;
    std::uint64_t acknowledged = 0;
    std::uint64_t failed = 0;   // attempts to store
    std::string last_error;     // of those
    std::uint64_t no_room = 0;  // attempts that found the spool full
  };
  [[nodiscard]] const Counters& counters() const { return counters_; }
  void append_metrics(std::vector<net::Metric>& into) const;

 private:
  CostStore(BatchSpool spool, CostDatabase costs, std::string instance, Send send)
      : spool_(std::move(spool)), costs_(std::move(costs)), instance_(std::move(instance)), send_(std::move(send)) {}
  Status enter(const BatchId& batch, const CostOrigin& origin, const std::vector<Cost>& costs);
  Status enter_aside();
  Status enter_late(std::uint64_t batch);
  Status enter_spooled();
  Status set_aside(const SpooledBatch& batch, const std::string& reason);
  Status let_go(std::uint64_t batch);
  bool failed(const Error& error);
  void pump();

  BatchSpool spool_;
  CostDatabase costs_;
  std::string instance_;
  Send send_;
  std::set<std::uint64_t> in_flight_;
  std::set<std::uint64_t> to_let_go_;    // acknowledged: the disk had no room for forgetting them
  std::set<std::uint64_t> not_entered_;  // of the spool: our own database could not store them
  std::uint64_t last_sent_ = 0;
  std::uint64_t last_offered_ = 0;
  std::uint64_t last_to_send_ = kEveryBatch;
  std::uint64_t answers_ = 0;
  std::uint64_t answers_seen_ = 0;
  std::optional<Nanoseconds> waits_since_;
  Counters counters_;
};

}  // namespace trimtab::agent
