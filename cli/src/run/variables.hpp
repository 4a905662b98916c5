#pragma once

// Environment variables as values, so that what depends on them can be tried without a process.

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trimtab::cli {

using Variables = std::map<std::string, std::string>;

// This process's.
[[nodiscard]] Variables own_variables();
// Empty where it is not there.
[[nodiscard]] std::string value_of(const Variables& variables, const std::string& name);
// Nothing where it is not there, or no whole number of at least 0.
[[nodiscard]] std::optional<std::int64_t> number_of(const Variables& variables, const std::string& name);

// What to set; nothing = take it away.
using VariableChanges = std::map<std::string, std::optional<std::string>>;

// "NAME=VALUE" of this process's environment with these changes, in its order, as exec takes it.
[[nodiscard]] std::vector<std::string> changed_environment(const VariableChanges& changes);

}  // namespace trimtab::cli
