#pragma once

// Events and actions of the tuning machine as one line each, the same on every machine: doubles of six digits, long
// texts as a hash of their canonical form.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tuning/action.hpp"
#include "tuning/search/planning.hpp"
#include "tuning/state.hpp"

namespace trimtab::coordinator {

[[nodiscard]] std::string to_text(double number);
// Eight digits of it.
[[nodiscard]] std::string short_hash(std::string_view text);
// The text itself where it is short, else how it begins and its hash. JSON is brought into its canonical form before.
[[nodiscard]] std::string brief(const std::string& text);
// Doubles are rounded, and stored times are milliseconds. `drop_empty` leaves out members that are nothing: 0, false
// and whatever is empty. `name`: the value's own, where it is a member.
[[nodiscard]] std::string canonical(const nlohmann::json& value, bool drop_empty = false, std::string_view name = "");

[[nodiscard]] std::string to_text(const Event& event);
// Without what a step tells beside its time.
[[nodiscard]] std::string to_line(const Event& event);
[[nodiscard]] std::string to_text(const Action& action);
[[nodiscard]] std::string to_text(const SearchTask& task);
[[nodiscard]] std::string to_text(const MeasuredStep& step);
[[nodiscard]] std::string to_text(const Trial& trial);

}  // namespace trimtab::coordinator
