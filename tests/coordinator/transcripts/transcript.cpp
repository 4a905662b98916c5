#include "transcript.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "canonical_text.hpp"
#include "golden_file.hpp"

namespace trimtab::coordinator {
namespace {

using nlohmann::json;

constexpr std::size_t kLongestValue = 600;

std::string moment_text(Nanoseconds time) {
  std::array<char, 32> text{};
  (void)std::snprintf(text.data(), text.size(), "%.3f", milliseconds(time) / 1000);
  return text.data();
}

// Empty = an event that is always told.
std::string quiet_kind(const Event& event) {
  if (std::holds_alternative<Tick>(event)) return "ticks";
  if (std::holds_alternative<CommandMoved>(event)) return "moves";
  if (std::holds_alternative<CommandFinished>(event)) return "answers";
  const auto* from = std::get_if<FromRank>(&event);
  if (from == nullptr) return "";
  return std::holds_alternative<RankStep>(from->news) ? "steps" : "news";
}

// Where it does not move with every step.
std::string progress_of(const Tuning& tuning) {
  const Phase phase = tuning.state().phase;
  if (phase != Phase::kProfiling && phase != Phase::kTrials && phase != Phase::kComparing) return "";
  const Progress progress = tuning.progress();
  return std::to_string(progress.done) + "/" + std::to_string(progress.total) + " " + progress.what;
}

// What a person would see of the job.
std::map<std::string, std::string> words_of(const Tuning& tuning) {
  const TuningState& state = tuning.state();
  const std::string purpose = tuning.state().purpose();
  return {{"phase", std::string(to_string(state.phase))},
          {"doing", std::string(to_string(state.doing))},
          {"trial", state.trials.empty() ? "" : to_text(state.trials.back())},
          {"incumbent", brief(state.incumbent.hash)},
          {"launch", std::to_string(state.launch)},
          {"epochs", std::to_string(state.last_epoch) + "/" + std::to_string(state.committed_epoch)},
          {"ranks", std::to_string(state.world_size())},
          {"drifts", state.hardware.drifts.empty() ? "" : std::to_string(state.hardware.drifts.size())},
          {"crashes", state.crashes.empty() ? "" : std::to_string(state.crashes.size())},
          {"held", tuning.held_by()},
          {"progress", progress_of(tuning)},
          {"purpose", purpose.rfind("phase ", 0) == 0 ? "" : purpose},
          {"takes nodes", tuning.takes_nodes() ? "yes" : ""}};
}

std::string state_text(const TuningState& state) {
  const json document = json::parse(to_json(state));
  const json fresh = json::parse(to_json(TuningState()));
  std::string text;
  for (const auto& [name, value] : document.items()) {
    if (name == "job" || value == fresh[name]) continue;
    if (name == "trials") {
      for (const json& trial : value) text += "  trial " + canonical(trial, true) + "\n";
      continue;
    }
    const std::string shown = canonical(value, true, name);
    const bool is_long = shown.size() > kLongestValue;
    const std::string items = std::to_string(value.size()) + " items #" + short_hash(shown);
    text += "  " + name + " " + (is_long ? items : shown) + "\n";
  }
  return text;
}

}  // namespace

std::string state_digest(const TuningState& state) {
  return short_hash(canonical(json::parse(to_json(state))));
}

void Transcript::say(const std::string& line) {
  text_ += "# " + line + "\n";
}

bool Transcript::is_quiet(const Handled& handled) {
  const bool says_nothing =
      handled.actions.empty() && handled.notes.empty() && handled.decisions.empty() && handled.changed_trials.empty();
  return says_nothing && handled.event != nullptr && !quiet_kind(*handled.event).empty();
}

void Transcript::add_quiet(const Handled& handled) {
  ++quiet_.counts[quiet_kind(*handled.event)];
  quiet_.text += moment_text(handled.now.monotonic) + " " + to_text(*handled.event) + "\n";
  for (const MeasuredStep& step : handled.steps) quiet_.text += to_text(step) + "\n";
  if (!handled.steps.empty()) quiet_.counts["measured"] += static_cast<int>(handled.steps.size());
  if (!handled.changed) return;
  ++quiet_.counts["saved"];
  quiet_.text += "saved\n";
}

void Transcript::flush(const TuningState& state) {
  if (quiet_.counts.empty()) return;
  text_ += "..";
  for (const auto& [name, count] : quiet_.counts) text_ += " " + std::to_string(count) + " " + name;
  text_ += " to step " + std::to_string(state.step) + " #" + short_hash(quiet_.text) + "\n";
  quiet_ = {};
}

std::string Transcript::outputs_of(const Handled& handled) {
  std::string text;
  std::size_t searches = 0;
  for (const Action& action : handled.actions) {
    text += "  > " + to_text(action) + "\n";
    if (!std::holds_alternative<SearchPlans>(action)) continue;
    text += "    " + to_text(handled.tasks.at(searches++)) + "\n";
  }
  for (const Note& note : handled.notes) {
    text += "  " + note.kind + ": " + note.text + (note.data_json == "{}" ? "" : " " + brief(note.data_json)) + "\n";
  }
  for (const Decision& decision : handled.decisions) {
    text += "  decided " + decision.what + ", because " + brief(decision.why) + "\n";
  }
  for (const Trial& trial : handled.changed_trials) text += "  changed trial " + to_text(trial) + "\n";
  for (const MeasuredStep& step : handled.steps) {
    text += "  measured in trial " + std::to_string(step.trial) + ", block " + std::to_string(step.block) + "\n";
  }
  return text;
}

void Transcript::write_whole(const Handled& handled, const TuningState& state) {
  const std::string what = handled.event != nullptr ? to_text(*handled.event) : handled.call;
  whole_ += "@" + moment_text(handled.now.monotonic) + " " + what + (handled.changed ? " saved" : "") + "\n";
  whole_ += outputs_of(handled);
  for (const MeasuredStep& step : handled.steps) whole_ += "  measured " + to_text(step) + "\n";
  const json document = json::parse(to_json(state));
  for (const auto& [name, value] : document.items()) {
    const std::string shown = canonical(value, false, name);
    if (std::exchange(whole_state_[name], shown) != shown) whole_ += "  " + name + " = " + shown + "\n";
  }
}

void Transcript::write_difference(const Words& now) {
  for (const auto& [name, value] : now) {
    if (last_[name] != value) text_ += " " + name + " " + (value.empty() ? "none" : value) + ";";
  }
  last_ = now;
}

void Transcript::add(const Handled& handled, const Tuning& after) {
  if (keeps_whole()) write_whole(handled, after.state());
  const Words now = words_of(after);
  if (is_quiet(handled) && now == last_) return add_quiet(handled);
  flush(after.state());
  const std::string what = handled.event != nullptr ? to_line(*handled.event) : handled.call;
  text_ += "@" + moment_text(handled.now.monotonic) + " " + what + "\n";
  text_ += outputs_of(handled);
  // What the lines leave out.
  if (handled.event != nullptr) quiet_.text += to_text(*handled.event) + "\n";
  for (const MeasuredStep& step : handled.steps) quiet_.text += to_text(step) + "\n";
  text_ += "  =";
  write_difference(now);
  if (handled.changed) text_ += " saved";
  if (with_digests_) text_ += " #" + state_digest(after.state());
  text_ += "\n";
}

void Transcript::fold(const TuningState& state) {
  flush(state);
  const auto lines = std::count(text_.begin(), text_.end(), '\n');
  text_ = "# " + std::to_string(lines) + " lines #" + short_hash(text_) + "\n";
}

std::string Transcript::end(const TuningState& state, bool with_state) {
  flush(state);
  text_ += "state at the end #" + state_digest(state) + "\n";
  if (with_state) text_ += state_text(state);
  return text_;
}

}  // namespace trimtab::coordinator
