#pragma once

// The model document in what a describe command printed. Pure; any thread.

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace trimtab {

// The one model document in what a program printed, as it was printed. What stands before, behind and between (log text,
// other JSON) is passed over. Fails where there is none, and where there are several. Looks at each byte once.
[[nodiscard]] Result<std::string> printed_model(std::string_view output);

}  // namespace trimtab
