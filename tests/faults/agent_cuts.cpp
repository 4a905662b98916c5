// The agent's database: batches that were numbered and not acknowledged, and replies to commands that were done.

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "agent_database.hpp"
#include "costs/cost_store.hpp"
#include "machine.hpp"
#include "power_cuts.hpp"
#include "seeded_runs.hpp"

namespace trimtab::test {

namespace {

using agent::AgentDatabase;
using agent::BatchSpool;
using agent::CommandLedger;

constexpr Bytes kSpoolLimit = 60'000;

// What the database must hold.
struct Promised {
  struct Batch {
    bool active = false;
    std::string payload;
    bool operator==(const Batch&) const = default;
  };
  std::map<std::uint64_t, Batch> batches;
  std::uint64_t last_number = 0;
  std::map<std::uint64_t, std::string> replies;  // of commands that were done
  bool operator==(const Promised&) const = default;

  [[nodiscard]] Bytes bytes() const {
    Bytes sum = 0;
    for (const auto& [id, batch] : batches) sum += static_cast<Bytes>(batch.payload.size());
    return sum;
  }
  // Returns its number; 0 where the spool has no room. An active job's may take it to twice its limit.
  std::uint64_t put(bool active, const std::string& payload) {
    const auto size = static_cast<Bytes>(payload.size());
    if (bytes() + size > (active ? 2 * kSpoolLimit : kSpoolLimit)) return 0;
    batches[++last_number] = {active, payload};
    return last_number;
  }
};

class AgentLives {
 public:
  explicit AgentLives(std::uint64_t seed) : random_(seed), machine_(random_) {}

  void run() {
    for (std::uint64_t lives = 2 + random_.below(3); lives > 0; --lives) {
      machine_.prepare_end(20 + random_.below(400));
      live();
      stop();
      machine_.come_up();
      look();
    }
  }

 private:
  bool start() {
    auto opened = agent::open_agent_database(machine_.disk.file("agent.db"), random_);
    if (!opened.ok()) {
      expect(machine_.may_fail(), "the database opens: " + opened.error().message);
      return false;
    }
    state_ = std::make_unique<AgentDatabase>(std::move(opened).value());
    if (instance_.empty()) instance_ = state_->instance;
    expect(state_->instance == instance_, "an instance keeps its name");
    auto spool = BatchSpool::open(state_->database, kSpoolLimit);
    if (!spool.ok()) {
      expect(machine_.may_fail(), "the spool opens: " + spool.error().message);
      stop();
      return false;
    }
    spool_ = std::make_unique<BatchSpool>(std::move(spool).value());
    if (compare()) return true;
    stop();
    return false;
  }
  void stop() {
    spool_.reset();
    state_.reset();
  }

  void live() {
    for (int tries = 0; tries < 60 && !machine_.disk.is_cut(); ++tries) {
      if (!state_ && !start()) continue;
      act();
      if (random_.below(40) == 0) stop();  // in peace
    }
  }

  void act() {
    switch (random_.below(5)) {
      case 0:
        return acknowledge();
      case 1:
        return finish_command();
      default:
        return put();
    }
  }

  void put() {
    Promised after = promised_;
    const bool active = random_.below(4) == 0;
    const std::string payload(random_.below(random_.below(4) == 0 ? 20'000 : 300),
                              static_cast<char>(random_.below(256)));
    const std::uint64_t expected = after.put(active, payload);
    const auto number = spool_->put(active, payload);
    settle(number.ok(), std::move(after));
    if (number.ok()) expect(*number == expected, "batches are numbered one after the other, without repetition");
  }

  void acknowledge() {
    if (promised_.batches.empty()) return;
    auto chosen = promised_.batches.begin();
    std::advance(chosen, static_cast<long>(random_.below(promised_.batches.size())));
    Promised after = promised_;
    after.batches.erase(chosen->first);
    settle(spool_->acknowledge(chosen->first).ok(), std::move(after));
  }

  void finish_command() {
    wire::Command command;
    command.set_id(1 + promised_.replies.size());
    wire::CommandDone done;
    done.set_output("output " + std::to_string(random_.next()));
    Promised after = promised_;
    after.replies[command.id()] = done.output();
    settle(CommandLedger(state_->database).done(command, done).ok(), std::move(after));
  }

  // What was confirmed is promised from then on. What failed is not there, unless a start finds in the log what had
  // been written when the power went or the sync failed.
  void settle(bool confirmed, Promised after) {
    if (confirmed) {
      if (after != promised_) perhaps_.clear();
      promised_ = std::move(after);
      return;
    }
    expect(machine_.may_fail(), "nothing fails on a disk with room and power");
    if (machine_.may_have_stored()) perhaps_.push_back(std::move(after));
    if (machine_.disk.is_cut()) return;
    // Room was missing for reading, too: there is nothing to compare then.
    if (const auto held = read(); held) expect(*held == promised_, "what found no room changed nothing");
  }

  [[nodiscard]] std::optional<Promised> read() {
    Promised held;
    const auto batches = state_->database.query("SELECT id, active, payload FROM batches");
    const auto last =
        state_->database.query("SELECT COALESCE(MAX(seq), 0) FROM sqlite_sequence WHERE name = 'batches'");
    if (!batches.ok() || !last.ok()) return std::nullopt;
    for (const Row& row : *batches) {
      held.batches[static_cast<std::uint64_t>(as_integer(row[0]))] = {as_integer(row[1]) != 0, as_text(row[2])};
    }
    held.last_number = static_cast<std::uint64_t>(as_integer((*last)[0][0]));
    for (std::uint64_t id = 1; id <= promised_.replies.size() + 1; ++id) {
      wire::Command command;
      command.set_id(id);
      const auto reply = CommandLedger(state_->database).reply(command);
      if (!reply.ok()) return std::nullopt;
      if (*reply) held.replies[id] = (*reply)->output();
    }
    return held;
  }

  // At a start. False when the database cannot be read.
  bool compare() {
    const auto held = read();
    if (!held) {
      expect(machine_.may_fail(), "the database can be read");
      return false;
    }
    expect(*held == promised_ || std::ranges::find(perhaps_, *held) != perhaps_.end(),
           "all that was confirmed is there after a start, and nothing else");
    if (*held != promised_) perhaps_.clear();
    promised_ = *held;
    return true;
  }

  void look() {
    expect(start(), "the agent starts again");
    expect(state_->database.look_after().set_apart == 0, "nothing is said to be missing");
    expect(spool_->bytes() == promised_.bytes(), "the spool knows its size");
    const auto checked = state_->database.query("PRAGMA integrity_check");
    expect(checked.ok() && as_text((*checked)[0][0]) == "ok", "the file is sound");
    if (random_.below(2) == 0) stop();
  }

  Random random_;
  Machine machine_;
  std::unique_ptr<AgentDatabase> state_;
  std::unique_ptr<BatchSpool> spool_;
  std::string instance_;
  Promised promised_;
  // What a start may find instead: changes that failed, until another that did not is written over them in the log. It
  // may take two starts, because a later change that is cut off can begin as the failed one did, and so lead to its
  // end.
  std::vector<Promised> perhaps_;
};

}  // namespace

void agent_cuts(std::uint64_t seed) {
  AgentLives(seed).run();
}

}  // namespace trimtab::test
