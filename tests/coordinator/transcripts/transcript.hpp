#pragma once

// A job's life as text: each event that came in, the actions that went out, and what is different after it. A golden
// file of it (golden_file.hpp) keeps the tuning machine's behaviour through changes of its code.

#include <map>
#include <string>

#include "handled.hpp"

namespace trimtab::coordinator {

class Transcript {
 public:
  // Without digests of the state a transcript is made faster, and has them at its end alone.
  explicit Transcript(bool with_digests = true) : with_digests_(with_digests) {}

  // A line of the story's own: what is done to the job.
  void say(const std::string& line);
  // Events that change nothing a person would see (most steps and ticks, some answers) are counted, and are in a digest
  // with what they gave.
  void add(const Handled& handled, const Tuning& after);
  // All up to here becomes a digest: another transcript tells the same.
  void fold(const TuningState& state);
  // The whole text. With the persisted state at the end where that is wanted, without what is as in a new one.
  [[nodiscard]] std::string end(const TuningState& state, bool with_state = false);
  // Every event, and what it has changed in the persisted state; empty unless somebody wants it (golden_file.hpp).
  [[nodiscard]] const std::string& whole() const { return whole_; }

 private:
  struct Quiet {
    std::map<std::string, int> counts;
    std::string text;
  };
  using Words = std::map<std::string, std::string>;

  [[nodiscard]] static bool is_quiet(const Handled& handled);
  void add_quiet(const Handled& handled);
  void flush(const TuningState& state);
  [[nodiscard]] static std::string outputs_of(const Handled& handled);
  void write_whole(const Handled& handled, const TuningState& state);
  void write_difference(const Words& now);

  bool with_digests_;
  std::string text_;
  Quiet quiet_;
  Words last_;
  std::string whole_;
  Words whole_state_;
};

// Of the whole persisted state, without the digits that may differ from machine to machine.
[[nodiscard]] std::string state_digest(const TuningState& state);

}  // namespace trimtab::coordinator
