#pragma once

// Why a launch script, or what was taken for one, may say nothing of what is looked for. Pure.

#include <string>
#include <string_view>
#include <vector>

#include "schema/launch_script.hpp"

namespace trimtab {

// In words that go behind "found none": "; it runs pretrain_t5.py, which is no decoder-only GPT's". `options`: those of
// a file that is no script.
[[nodiscard]] std::string reason_for_none(const LaunchScript& script, const std::vector<std::string>& options,
                                          std::string_view text, std::string_view option);

}  // namespace trimtab
