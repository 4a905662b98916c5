#pragma once

// The cost database: costs by hardware fingerprint, in an SQLite file with one writer, or on a PostgreSQL server that
// several coordinators share (schema/database.hpp says how either is named). Refuses a read-only place, a foreign file
// and a newer schema with a message that says what to do, and changes nothing then. Tables: schema/sql/. Not
// thread-safe: one owner thread.
//
// Sources are kept apart (schema/cost_source.hpp), also when they are read: a key has a cost for each. Every merge is
// exact (schema/statistics.hpp) and idempotent by batch.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/units.hpp"
#include "schema/cost.hpp"
#include "schema/database.hpp"
#include "schema/fingerprint.hpp"
#include "schema/sharing/shared_costs.hpp"

namespace trimtab {

struct CostPage {
  std::vector<Cost> costs;  // by key and source
  std::int64_t next = 0;    // to ask for with; 0 = this was the last page
};

// Who sent a batch and which: the key of "counts once". An origin is unique in the world (drawn once per database) and
// numbers its batches 1, 2, 3, ...: those without a gap are folded into one row per cost, so that files stay small. A
// gap is allowed, and only keeps what follows it unfolded, until compare() knows that nobody can fill it. REQUIRES of
// add_batch: a name, and a number below 2^63.
struct BatchId {
  std::string origin;
  std::uint64_t number = 0;
};

struct CostRow {
  std::string fingerprint;  // hash
  std::string source;       // as it is stored
  Cost cost;
};

struct CostBatch {
  BatchId id;
  // Nothing: the batch can never be stored and has no costs. Its number is used up, so that those after it are folded.
  std::optional<NamedFingerprint> fingerprint;
  std::string source;  // to_text() of a CostSource
  std::vector<Cost> costs;
  // Who sends it, empty = not said. The first node that is said is the origin's own; what another sends under its name
  // is stored as ORIGIN/of/NODE's, so that none of the two can take the other's numbers.
  std::string node = {};
};

// What the maker of an origin's batches says of their numbers.
struct OriginNumbers {
  std::string origin;
  std::uint64_t held_from = 0;  // those below were stored here, and the maker has them no more; 0 = not said
  std::uint64_t last = 0;       // the highest that it has given to a batch
  std::string node = {};        // who says so, as CostBatch.node
};
// What the database says to that.
struct OriginFindings {
  std::uint64_t lost = 0;  // were stored here once and are not: this is an older copy. They count as without costs now
  bool ahead = false;      // later numbers are stored: the maker is an older copy, or there are two of it
  std::uint64_t last = 0;  // the highest number that was stored when it was asked
  std::string node = {};   // whose the origin is, empty = nobody's yet. Of another's nothing is found or changed
};

// An origin some of whose batches are stored one by one.
struct UnfoldedOrigin {
  std::int64_t id = 0;  // in this database alone
  std::string name;
  std::uint64_t last = 0;  // the highest number that is stored one by one
  bool is_stuck = false;   // the number that would be folded next is not there: nothing of it can be folded
};

enum class OpenMode { kCreate, kReadWrite, kReadOnly };

// A fact of a fingerprint: which costs the latest job there has taken over of near hardware. They are not stored with
// it. The document is what reports have as `taken_over` (schema/api/report.hpp).
inline constexpr const char* kTakenOverFact = "taken_over";

class CostDatabase {
 public:
  [[nodiscard]] static Result<CostDatabase> open(const std::string& name, OpenMode mode);
  CostDatabase(CostDatabase&&) noexcept;
  CostDatabase& operator=(CostDatabase&&) noexcept;
  ~CostDatabase();

  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] const std::string& backup() const;  // as Database::backup()

  [[nodiscard]] DatabaseHealth look_after();  // as Database::look_after()

  // Stores the batch in one transaction; false when this (origin, number) was stored before. On failure (disk full)
  // nothing of the batch is stored and the database stays usable.
  [[nodiscard]] Result<bool> add_batch(const BatchId& batch, const Fingerprint& fingerprint, const std::string& source,
                                       const std::vector<Cost>& costs);

  // The same for many batches in one transaction: all that are new are stored, or none. Returns for each of them, in
  // their order, whether it was new. One commit for all, and on a server few round trips.
  [[nodiscard]] Result<std::vector<bool>> add_batches(std::span<const CostBatch> batches);

  // Compares. Where batches are lost, those after them are folded again (schema/README.md). REQUIRES: numbers below
  // 2^63, and `held_from` at most one above `last`; else it is bad input.
  [[nodiscard]] Result<OriginFindings> compare(const OriginNumbers& said);

  // Folding beside add_batches(), which folds an origin only while it goes on sending: of one that is gone some batches
  // would stay for ever, and whoever reads costs reads them one by one. The origins that have such batches, in the
  // order of their ids: at most `most` of those after the id `after`.
  [[nodiscard]] Result<std::vector<UnfoldedOrigin>> unfolded_origins(std::int64_t after, std::size_t most) const;
  // Folds what these origins have without a gap, in one transaction of a bounded size (16 origins, 256 batches, 64 KiB
  // of costs). Changes no cost, and may be done at any time, also of origins that go on sending and by several
  // coordinators at once. Returns how many of the origins are done, from the first on; the others are to be named
  // again.
  [[nodiscard]] Result<std::size_t> fold_origins(std::span<const std::string> names);

  // All costs of a fingerprint, by key and source; of one source where its text is named. `kinds` empty = all.
  [[nodiscard]] Result<std::vector<Cost>> costs(const std::string& fingerprint_hash,
                                                const std::vector<CostKind>& kinds = {},
                                                const std::string& source = "") const;
  // The same in pages, for who must not hold all of it: of the first `most` keys after the one that `after` names, in
  // the order in which they were first stored. 0 = from the first. A page may have no costs though others follow.
  [[nodiscard]] Result<CostPage> costs_page(const std::string& fingerprint_hash, std::int64_t after,
                                            std::size_t most) const;
  [[nodiscard]] Result<std::vector<CostRow>> rows() const;
  [[nodiscard]] Result<std::vector<Fingerprint>> fingerprints() const;
  // The first `most` of those whose hash is greater than `after`.
  [[nodiscard]] Result<std::vector<Fingerprint>> fingerprints_after(const std::string& after, std::size_t most) const;
  // Of all keys that any cost was ever stored under, whatever its fingerprint and source. Reads the keys alone, of a
  // file those that are new since the last call.
  [[nodiscard]] Result<std::uint64_t> key_count() const;
  // What rows and indices take of a file: its size less the pages that are free, which SQLite never gives back. Nothing
  // of a server.
  [[nodiscard]] Result<std::optional<Bytes>> used_bytes() const;

  // Adds everything of another database; batches that both have count once. Exact, idempotent, any order.
  // Returns what was new. `other` is a path or a server's name, whatever this one is.
  [[nodiscard]] Result<MergeCounts> merge_from(const std::string& other);
  [[nodiscard]] Result<MergeCounts> merge_from(const CostDatabase& other);

  // Stores what somebody contributes (schema/sharing/shared_costs.hpp), in one transaction. Repeating it changes
  // nothing. Refused is a name that is none, a source that does not name the contributor (kBadInput), and what would be
  // more than kMostContributed costs of them (kNo).
  [[nodiscard]] Result<ContributionCounts> contribute(const Contributor& who, std::span<const ContributedCosts> costs);
  // Removes up to `most` of a contributor's costs in one transaction. A contributor of whom there is nothing is none.
  [[nodiscard]] Result<RemovedCosts> remove_contributed(const std::string& contributor, std::size_t most);
  // By name.
  [[nodiscard]] Result<std::vector<ContributorSummary>> contributors() const;

  // A copy in parts. The first page with an empty `after`, the others with the `next` of the one before. A page has
  // about `most` costs: a batch is not divided. Facts are no part of it.
  [[nodiscard]] Result<CostParts> parts_after(const std::string& after, std::size_t most) const;
  // Takes over a page, all of them in their order, into a database that nobody else writes.
  [[nodiscard]] Status put_parts(const CostParts& parts);

  // Calibration and small facts that belong to a fingerprint: key to JSON text. Where two databases differ, merging
  // keeps the fact that was put more often, then the greater text. change_fact() puts what `change` makes of the fact
  // that is there (null: there is none), and no other writer comes between; it may be called more than once.
  [[nodiscard]] Status put_fact(const std::string& fingerprint_hash, const std::string& name, const std::string& json);
  using FactChange = std::function<std::string(const std::string* json)>;
  [[nodiscard]] Status change_fact(const std::string& fingerprint_hash, const std::string& name,
                                   const FactChange& change);
  [[nodiscard]] Result<std::optional<std::string>> fact(const std::string& fingerprint_hash,
                                                        const std::string& name) const;

 private:
  struct Implementation;
  explicit CostDatabase(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace trimtab
