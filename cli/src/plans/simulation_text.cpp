#include "plans/simulation_text.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/numbers.hpp"

namespace trimtab::cli {

namespace {

using nlohmann::json;

std::string padded(std::string text, std::size_t width, bool right) {
  const std::string space(width - std::min(width, text.size()), ' ');
  return right ? space + text : text + space;
}

std::string compose(const json& from) {
  const json& truth = from.at("truth");
  const auto factor = [&](const char* name) { return format_fixed(truth.at(name).get<double>(), 2); };
  const auto milliseconds = [&](const char* name) { return format_ms(from.at(name).get<double>()); };
  std::string text = "hidden truth: computation x " + factor("computation") + ", communication x " +
                     factor("communication") + ", overlap x " + factor("overlap") + ", memory x " + factor("memory") +
                     "\n";
  text += "truly: initial plan " + milliseconds("initial_true_ms") + ", adopted " + milliseconds("adopted_true_ms") +
          ", best known " + milliseconds("best_true_ms") + ": regret " +
          format_percent(from.at("regret").get<double>()) + "\n";
  text += std::to_string(from.at("trials").size()) + " trials, " + std::to_string(from.at("adoptions").get<int>()) +
          " adopted, " + std::to_string(from.at("false_adoptions").get<int>()) + " of them truly no faster; " +
          std::to_string(from.at("out_of_memory_trials").get<int>()) + " ran out of memory\n";
  const int reached = from.at("trials_to_2_percent").get<int>();
  text += reached < 0 ? "not within 2 % of the best known\n"
                      : "within 2 % of the best known after " + std::to_string(reached) + " trials\n";
  text += "overhead: " + format_percent(from.at("overhead_share").get<double>()) + " of the job's time, " +
          format_number(from.at("overhead_device_hours").get<double>(), 3) + " device hours\n";
  return text;
}

}  // namespace

std::string simulation_line(double seconds, const std::string& kind, const std::string& text) {
  return padded(format_ms(seconds * 1e3), 9, true) + "  " + padded(kind, 8, false) + " " + text + "\n";
}

Result<std::string> simulation_text(const std::string& simulation_json) {
  try {
    return compose(json::parse(simulation_json));
  } catch (const json::exception& cause) {
    return bad_input(std::string("the simulation's report: ") + cause.what());
  }
}

std::string planning_text(const coordinator::SimulationOutcome& outcome) {
  return "planning: " + format_ms(1e3 * outcome.planning_seconds) + " of processor time in " +
         std::to_string(outcome.searches) + " searches, at most " + format_ms(1e3 * outcome.longest_search_seconds) +
         " in one\n";
}

std::string timed_simulation(const coordinator::SimulationOutcome& outcome) {
  json document = json::parse(outcome.simulation_json);
  document["planning"] = {{"seconds", outcome.planning_seconds},
                          {"longest_search_seconds", outcome.longest_search_seconds},
                          {"searches", outcome.searches}};
  return document.dump(2);
}

}  // namespace trimtab::cli
