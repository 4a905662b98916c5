#pragma once

// A command's options as a configuration's members, to be read by PlanMembers. Pure.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "documents/json_document.hpp"

namespace trimtab {

// Names without their dashes, and values: dashes and underscores are one, "--name=value" and "--name value" too; of
// several words the value is a text with blanks between. A flag is true. Numbers, true and false become such, and what
// begins with { or [ JSON, where it is any.
[[nodiscard]] std::vector<std::pair<std::string, Json>> option_values(const std::vector<std::string>& words);

// Adds the options that `names`, a list with blanks between, has. The last one counts. REQUIRES: `tree` is an object,
// or null, which becomes one.
void add_options(const std::vector<std::string>& words, std::string_view names, Json& tree);

// Members of `name`, where that is an object, without this in front: "fsdp_version" becomes "version".
void strip_prefix(Json& tree, const std::string& name, std::string_view prefix);

}  // namespace trimtab
