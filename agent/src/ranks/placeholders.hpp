#pragma once

// {rank}, {plan}, ... in a job's argument vectors (docs/protocols.md). Pure.

#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"

namespace trimtab::agent {

using Placeholders = std::map<std::string, std::string>;

// A name in braces that is not known is an error; braces around anything else (JSON text) are left alone.
[[nodiscard]] Result<std::vector<std::string>> expand(const std::vector<std::string>& arguments,
                                                      const Placeholders& values);

}  // namespace trimtab::agent
